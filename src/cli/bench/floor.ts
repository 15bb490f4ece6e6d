/**
 * Serves the floor, a process of its own: the least that a Bun proxy does if it reads what it
 * forwards. One key look-up, parse, forward, re-serialise.
 */
export function serveFloor(): void {
  const keys = new Map([[`Bearer ${process.env.FLOOR_KEY}`, { name: 'bench' }]])
  const json = { 'content-type': 'application/json' }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      if (!keys.has(request.headers.get('authorization') ?? ''))
        return new Response('{}', { status: 401, headers: json })
      const body: { stream?: boolean } = JSON.parse(await request.text())
      const upstream = {
        method: 'POST',
        headers: json,
        body: JSON.stringify(body),
        signal: request.signal,
      }
      const answer = await fetch(`${process.env.UPSTREAM_URL}/v1/chat/completions`, upstream)
      if (body.stream)
        return new Response(answer.body, { headers: { 'content-type': 'text/event-stream' } })
      return new Response(JSON.stringify(JSON.parse(await answer.text())), {
        status: answer.status,
        headers: json,
      })
    },
  })
  process.stdout.write(`${JSON.stringify({ event: 'listening', url: server.url.origin })}\n`)
}
