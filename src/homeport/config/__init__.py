"""The config file: its schema, how it is loaded, and errors that say what to do.

Here belongs whatever turns a file into a `Config` or into a list of problems. What a value then
does is not known here: `app.py` reads the `Config` and hands the parts out.

    source      text to plain values, each with its line
    kind        how single values are written: sizes, durations, counts, addresses
    schema      the `Config` itself
    document    the JSON Schema of it, all violations at once
    rule        what no single value can show: duplicates, ports, variables that are not set
    load        all of these in order
    problem     what is wrong, where, and what to do
    key         a tenant's key and its hash
    reference   the pages of the reference that are made from the schema
"""
