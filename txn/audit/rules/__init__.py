"""The rules: each an invariant of the records, in a few lines, with what it means that it is broken.

    model         what a rule is
    headers       one transaction, one life, one end
    operations    each belongs to a transaction, and goes when its outcome was carried out
    outcomes      carried out by all, after the decision, as it was decided
    segments      each is known, and its cursors stay within its log
    indexes       every record is found by them
    pulsar        what only Pulsar has
    history       what only a ledger of earlier audits can show
    registry      all of them, and those that others add

What they promise. A rule judges by what the records say, by their own times. What is younger than a step takes is never
a violation: a store that lives is read shard by shard.

What they refuse. To guess. What cannot be known from records is no rule: whether entries are there, above all.

Start reading at model.py, then outcomes.py.
"""
