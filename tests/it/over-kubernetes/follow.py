"""Follows routes in a Kubernetes API: a ConfigMap with the label `route` lists URIs, and servers for all these URIs."""

import http.client
import json
import ssl


def follow(arguments, on_ready, add, remove):
    """Lists the ConfigMaps, then watches them. Arguments: address, CA, certificate, key."""
    address, ca, certificate, key = arguments
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificate, key)
    connection = http.client.HTTPSConnection(address, context=context)
    path = "/api/v1/namespaces/weir/configmaps?labelSelector=route"
    connection.request("GET", path)
    listed = json.loads(connection.getresponse().read())
    known = dict()

    def put(name, new):
        for pair in known.get(name, set()) - new:
            remove(*pair)
        for pair in new - known.get(name, set()):
            add(*pair)
        known[name] = new

    for item in listed["items"]:
        put(item["metadata"]["name"], pairs(item))
    version = listed["metadata"]["resourceVersion"]
    connection.request("GET", f"{path}&watch=true&resourceVersion={version}")
    events = connection.getresponse()
    on_ready()
    for line in events:
        event = json.loads(line)
        put(event["object"]["metadata"]["name"], set() if event["type"] == "DELETED" else pairs(event["object"]))


def pairs(item):
    """All pairs of a URI and a server."""
    data = json.loads(item["data"]["routes"])
    return set((uri, (server["ip"], int(server["port"]))) for uri in data["uris"] for server in data["servers"])
