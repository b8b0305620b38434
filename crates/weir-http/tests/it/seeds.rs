//! Example connections, which use each grammar rule at least once. Some are well-formed, some are malformed. The
//! fuzz target also starts from them.

/// Bytes from clients.
pub(crate) const REQUESTS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /a?b=c HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n\r\n",
    "\r\nGET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
    "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
    "PUT / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: Chunked\r\n\r\n1 ; a = \"q\\\"\" ;b\r\nz\r\n000\r\nT: v\r\nU:\r\n\r\n",
    "GET http://a.b/c HTTP/1.1\r\nHost: a.b\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: [::1]:8\r\n\r\n",
    "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Own, close\r\nX-Own: 1\r\nTE: trailers\r\nKeep-Alive: timeout=5\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "GET / HTTP/1.1\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\n folded\r\nX : y\r\n\r\n",
    "GET /\t HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
    "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\nFFFFFFFFFFFFFFFF\r\n",
];

/// Bytes from servers.
pub(crate) const RESPONSES: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nETag: x\r\n\r\nHTTP/1.1 204 \r\n\r\n",
    "HTTP/1.0 200 OK\r\n\r\nuntil the end",
    "HTTP/1.1 200\r\nConnection: close\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 304 Not Modified\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x01\x02",
    "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/1.1 200 O\rK\r\n\r\n",
];
