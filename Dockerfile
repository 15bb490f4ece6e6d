# The program, built from this checkout.
FROM oven/bun:1.4.5 AS build
WORKDIR /build
COPY package.json bun.lock bunfig.toml ./
RUN bun install --production --omit=peer --frozen-lockfile --ignore-scripts
COPY tsconfig.json build.ts ./
COPY src src
RUN bun run build.ts

# The program alone, as a user of its own. Everything that it writes is in /data.
FROM debian:12-slim
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
RUN install --directory --owner=10001 --group=10001 --mode=0700 /data
COPY --from=build /build/dist/gateway /usr/local/bin/gateway
ENV GATEWAY_DATA=/data
ENV GATEWAY_HOST=0.0.0.0
USER 10001:10001
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /ready HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["gateway"]
CMD ["serve", "--log", "json"]
