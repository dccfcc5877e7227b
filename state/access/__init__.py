"""Who may do what (docs/systems/authorization.md), and what no recording may hold.

authorizer, acl_filter   the StandardAuthorizer's rules, and the filters of ACL requests
delegation_tokens        tokens to log in with: owners, renewers, times
redaction                passwords, tokens and secret settings leave a document before it is kept

A rule of `redaction` may become stricter, never weaker: what is written down stays written down.
"""
