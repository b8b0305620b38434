"""Configurations of gateways and origins, as equal as possible."""

NGINX = """
daemon off;
worker_processes 1;
{user}
pid {dir}/nginx.pid;
error_log stderr crit;
worker_rlimit_nofile 20000;
events {{ worker_connections 16000; }}
http {{
    access_log off;
    keepalive_timeout 3600s;
    keepalive_requests 1000000000;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    {http}
}}
"""

NGINX_ORIGIN = """
    server {{
        listen 127.0.0.1:{port};
        location / {{ return 200 "{body}"; }}
    }}
"""

# The second server logs protocol, cipher and group of every request.
NGINX_TLS = """
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    ssl_protocols TLSv1.3;
    ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
    log_format suites '$server_protocol $ssl_protocol $ssl_cipher $ssl_curve';
    server {{
        listen 127.0.0.1:{port} ssl{http2} backlog=4096;
        location / {{ return 200 "{body}"; }}
    }}
    server {{
        listen 127.0.0.1:{logged} ssl{http2};
        access_log {dir}/suites.log suites;
        location / {{ return 200 "{body}"; }}
    }}
"""

# Compressing each response is expensive, so nginx is the bottleneck, not the tool. The cost of waking a sleeping tool
# differs between tools, but is small in comparison.
NGINX_COMPRESSING = """
    gzip on;
    gzip_types text/plain;
    default_type text/plain;
    server {{
        listen 127.0.0.1:{port};
        root {dir};
        location / {{ try_files /page =404; }}
    }}
"""

NGINX_COUNTING = """
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    server {{
        listen 127.0.0.1:{port} ssl http2;
        location / {{ return 200 "{body}"; }}
    }}
    server {{
        listen 127.0.0.1:{status};
        location / {{ stub_status; }}
    }}
"""

NGINX_GATEWAY = """
    upstream origin {{
        server 127.0.0.1:{origin};
        keepalive 256;
        keepalive_timeout 3600s;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_pass http://origin;
        }}
    }}
"""

HAPROXY = """
global
    nbthread 1
    maxconn 4096
defaults
    mode {mode}
    timeout connect 5s
    timeout client 3600s
    timeout server 3600s
    {keep_alive}
frontend in
    bind 127.0.0.1:{port}
    default_backend out
backend out
    server origin 127.0.0.1:{origin}
"""

ENVOY = """
static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          codec_type: HTTP1
          generate_request_id: false
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [{{ match: {{ prefix: "/" }}, route: {{ cluster: origin }} }}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: origin
    type: STATIC
    load_assignment:
      cluster_name: origin
      endpoints:
      - lb_endpoints:
        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {origin} }} }} }}
"""

WEIR = """
listeners: [{{ address: 127.0.0.1:{port} }}]
workers: 1
routes:
  - {{ hosts: ["127.0.0.1"], path: /, backend: origin }}
backends: {{ origin: {{ endpoints: ["127.0.0.1:{origin}"] }} }}
drain: {{ delay: 0s }}
"""

# The same file for every path.
NGINX_LARGE = """
    sendfile on;
    server {{
        listen 127.0.0.1:{port};
        root {dir};
        location / {{ try_files /large =404; }}
    }}
"""

WEIR_IDLE = """
listeners: [{{ address: 127.0.0.1:{port}, tls: {{ certificate: {certificate}, key: {key} }} }}]
workers: 1
routes: [{{ path: /, backend: origin }}]
backends: {{ origin: {{ endpoints: ["127.0.0.1:{origin}"] }} }}
limits: {{ connections: {connections} }}
timeouts: {{ idle: 1h }}
drain: {{ delay: 0s }}
"""
