# weir-gateway, linked statically, and nothing else. README.md says how to make the folder that is copied.
FROM scratch
COPY . /
ENV PATH=/usr/local/bin
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/weir-gateway"]
