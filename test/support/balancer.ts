/** A balancer before several servers. */
export interface Balancer extends AsyncDisposable {
  url: string
  add(url: string): void
  /** Resolves when as many servers say that they are ready. */
  waitForReady(count: number): Promise<void>
}

/** In milliseconds, between two questions whether a server is ready. */
const LOOK = 200

/**
 * Starts a balancer as operators have them: each server in turn, of those whose `/ready` said so when
 * it was last asked. A request that fails is not tried elsewhere, and is answered with 502.
 */
export function startBalancer(): Balancer {
  const backends = new Map<string, { isReady: boolean }>()
  let awaited: { count: number; resolve: () => void } | null = null
  const listReady = () => [...backends].flatMap(([url, { isReady }]) => (isReady ? [url] : []))
  const look = async () => {
    await Promise.all(
      Array.from(backends, async ([url, backend]) => {
        const answer = await fetch(`${url}/ready`, { keepalive: false }).catch(() => null)
        await answer?.body?.cancel()
        backend.isReady = answer?.status === 200
      }),
    )
    if (awaited && listReady().length === awaited.count) awaited.resolve()
  }
  const timer = setInterval(() => void look(), LOOK)
  let turn = 0
  const server = Bun.serve({
    ...{ hostname: '127.0.0.1', port: 0, idleTimeout: 0 },
    async fetch(request) {
      const ready = listReady()
      const backend = ready[turn++ % ready.length]
      if (!backend) return new Response('No server is ready', { status: 503 })
      const { pathname, search } = new URL(request.url)
      try {
        const answer = await fetch(backend + pathname + search, {
          ...{ method: request.method, headers: request.headers, body: await request.text() },
          signal: request.signal,
        })
        return new Response(answer.body, answer)
      } catch (thrown) {
        return new Response(`${backend}: ${thrown}`, { status: 502 })
      }
    },
  })
  return {
    url: server.url.origin,
    add: url => void backends.set(url, { isReady: false }),
    async waitForReady(count) {
      const { promise, resolve } = Promise.withResolvers<void>()
      awaited = { count, resolve }
      await promise
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      await server.stop(true)
    },
  }
}
