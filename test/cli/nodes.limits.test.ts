import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { waitUntil } from '../support/chat.ts'
import { type Node, openNodes } from '../support/nodes.ts'
import { hasPostgres } from '../support/postgres.ts'

if (await hasPostgres()) {
  const dollar = { prompt: 1, completion: 1 }
  const models = [
    {
      id: 'acme/small',
      endpoints: [{ provider: 'sandbox', model: 'echo', usd_per_million_tokens: dollar }],
    },
  ]
  const KEYS = 3
  /** In dollars: what a key may spend, and less than all keys together for their workspace. */
  const LIMIT = 0.002
  const WHOLE = 0.005
  const toNanos = (usd: number) => BigInt(Math.round(usd * 1e9))

  test('A-21 three servers spend what limits allow and no more, though one is killed meanwhile', async () => {
    await using nodes = await openNodes({ models })
    const { postgres, management_key: key, read } = nodes
    const [a, b, c] = [await nodes.start(), await nodes.start(), await nodes.start()]
    const alive: Node[] = [a, b, c]
    const keys: string[] = []
    for (let i = 0; i < KEYS; i++) {
      const made = await a.fetch('/keys', { key, json: { name: `key ${i}`, limit: LIMIT } })
      keys.push(((await made.json()) as { key: string }).key)
    }
    const listed = await a.fetch('/workspaces', { key })
    const [{ id: workspace } = { id: '' }] = ((await listed.json()) as { data: { id: string }[] })
      .data
    const budget = await a.fetch(`/workspaces/${workspace}/budgets/lifetime`, {
      ...{ key, method: 'PUT', body: JSON.stringify({ limit_usd: WHOLE }) },
      headers: { 'content-type': 'application/json' },
    })
    expect(budget.status).toBe(200)

    let isOver = false
    const looks: bigint[] = []
    const watch = (async () => {
      while (!isOver) {
        looks.push(await read('select max(used) from gateway.accounts'))
        const rows = (await postgres.run(
          "select used::text from gateway.accounts where meter like 'own key%'",
        )) as { used: string }[]
        for (const { used } of rows) expect(BigInt(used)).toBeLessThanOrEqual(toNanos(LIMIT))
        // Who looks without a pause has a core for themselves.
        await Bun.sleep(10)
      }
    })()
    const statuses = new Map<number, number>()
    let answered = 0
    const spendAll = () => Promise.all(Array.from({ length: 12 }, (_, i) => caller(i)))
    const caller = async (start: number) => {
      for (let i = start, refused = 0; refused < KEYS; i++) {
        const node = alive[i % alive.length] as Node
        const messages = [{ role: 'user', content: 'Hello there, how are you?' }]
        const status = await node
          .fetch('/chat/completions', {
            key: keys[i % KEYS] as string,
            json: { model: 'acme/small', messages, max_tokens: 40 },
          })
          .then(async answer => {
            await answer.text()
            return answer.status
          })
          .catch(() => 0)
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
        refused = status === 402 ? refused + 1 : 0
        if (status === 200 && ++answered === 60) {
          alive.splice(1, 1)
          void b.end('SIGKILL')
        }
      }
    }
    await spendAll()
    // What was running there is settled, and what it had on lease comes back.
    const again = await nodes.start(b.data)
    alive.push(again)
    await spendAll()
    isOver = true
    await watch
    // Nobody but the callers of the killed one had no answer.
    expect([...statuses.keys()].filter(status => ![0, 200, 402].includes(status))).toEqual([])
    expect(looks.every(used => used <= toNanos(WHOLE))).toBe(true)
    const spent = await read('select sum(nanos) from gateway.spend')
    expect(await read('select sum(nanos) from gateway.ledger')).toBe(spent)
    expect(await read('select sum(total_cost) from gateway.generations')).toBe(spent)
    expect(spent).toBeLessThanOrEqual(toNanos(WHOLE))
    expect(spent).toBeGreaterThan((toNanos(WHOLE) * 95n) / 100n)
    const shown = await again.fetch('/workspaces', { key })
    expect(shown.status).toBe(200)
    for (const node of [a, c, again]) await node.end('SIGTERM')
    expect(await read('select sum(amount) from gateway.leases')).toBe(0n)
    expect(await read('select max(used) from gateway.accounts')).toBe(spent)
    const { stdout } = await nodes.run(['doctor'])
    expect(stdout).not.toContain('WRONG')
  })

  test('what is forgotten while it stands still spends nothing when it goes on', async () => {
    await using nodes = await openNodes({ models })
    const { management_key, read } = nodes
    const [a, b] = [await nodes.start(), await nodes.start()]
    const made = await a.fetch('/keys', {
      key: management_key,
      json: { name: 'key', limit: LIMIT },
    })
    const { key } = (await made.json()) as { key: string }
    const call = (node: Node) =>
      node
        .fetch('/chat/completions', {
          key,
          json: {
            ...{ model: 'acme/small', max_tokens: 40 },
            messages: [{ role: 'user', content: 'Hello there, how are you?' }],
          },
        })
        .then(async answer => {
          await answer.text()
          return answer.status
        })
        .catch(() => 0)
    expect(await call(b)).toBe(200)
    const id = readFileSync(join(b.data, 'node.id'), 'utf8').trim()
    const forget = (...flags: string[]) => nodes.run(['nodes', 'forget', id, ...flags])

    b.process.kill('SIGSTOP')
    const waiting = Array.from({ length: 12 }, () => call(b))
    const isSilent = "seen_at < clock_timestamp() - interval '5 seconds'"
    await waitUntil(
      async () =>
        (await read(`select count(*) from gateway.nodes where id = '${id}' and ${isSilent}`)) ===
        1n,
    )
    const refused = await forget()
    expect(refused.code).toBe(4)
    expect(refused.stderr).toMatch(
      /was heard of \d+ s ago: .* if its process has ended: --ended\n$/,
    )
    expect((await forget('--ended')).stdout).toContain(`Forgot ${id}`)
    while ((await call(a)) === 200);
    const spent = await read('select sum(nanos) from gateway.spend')
    expect(spent).toBeGreaterThan((toNanos(LIMIT) * 95n) / 100n)

    b.process.kill('SIGCONT')
    expect(await Promise.all(waiting)).not.toContain(200)
    expect(await b.process.exited).toBe(1)
    await nodes.start(b.data)
    expect(await read('select sum(nanos) from gateway.spend')).toBe(spent)
    expect(spent).toBeLessThanOrEqual(toNanos(LIMIT))
  })

  const ask = async (node: Node, key: string, path: string, json?: object) =>
    (await node.fetch(path, { key, json })).json() as Promise<Record<string, string>>

  test('the jobs of a server that stands still or is killed go on at another, and each is done once', async () => {
    await using provider = startProvider()
    const buildProviders = (api_key: string) => ({
      providers: { local: { protocol: 'openai-chat', base_url: provider.url, api_key } },
    })
    await using nodes = await openNodes({
      batches: { concurrency: 1 },
      models: [
        { id: 'acme/small', endpoints: [{ provider: 'local', model: 'up' }] },
        {
          id: 'acme/film',
          output_modalities: ['video'],
          endpoints: [{ provider: 'local', model: 'film-1' }],
        },
      ],
      ...buildProviders('none'),
    })
    const { postgres, inference_key: key } = nodes
    // Each has a key of its own for the provider, which says who asks.
    const [a, b] = [
      await nodes.start(undefined, buildProviders('a')),
      await nodes.start(undefined, buildProviders('b')),
    ]
    const film = { model: 'acme/film', prompt: 'A cat' }
    const { id: job } = await ask(b, key, '/videos', film)
    // It waits for its next turn then, which is over when it goes on.
    await waitUntil(async () => (await ask(b, key, `/videos/${job}`)).status === 'in_progress')

    a.process.kill('SIGSTOP')
    const before = provider.countPolls('a')
    await waitUntil(() => provider.countPolls('b') > 0)
    a.process.kill('SIGCONT')
    expect((await fetch(`${a.url}/health`)).status).toBe(200)
    const { stdout } = await nodes.run(['nodes', 'list', '--json'])
    const listed: { has_jobs: boolean }[] = JSON.parse(stdout).data
    expect(listed.map(({ has_jobs }) => has_jobs).toSorted()).toEqual([false, true])
    provider.end()
    await waitUntil(async () => (await ask(a, key, `/videos/${job}`)).status === 'completed')
    expect(provider.countPolls('a')).toBe(before)

    const requests = ['one', 'two', 'three', 'four'].map(custom_id => ({
      custom_id,
      body: { model: 'acme/small', messages: [{ role: 'user', content: custom_id }] },
    }))
    const batch = await ask(a, key, '/batches', { endpoint: '/v1/chat/completions', requests })
    // The second line runs when its server is killed.
    await waitUntil(() => provider.lines.length === 2)
    expect(new Set(provider.lines.map(({ by }) => by))).toEqual(new Set(['b']))
    await b.end('SIGKILL')
    provider.answerAll()
    // What is not heard of for twenty seconds, as the database sees it.
    await postgres.run('update gateway.jobs set until = clock_timestamp()')
    await waitUntil(async () => (await ask(a, key, `/batches/${batch.id}`)).status === 'completed')
    const { output_file_id, request_counts } = await ask(a, key, `/batches/${batch.id}`)
    expect(request_counts).toEqual({ total: 4, completed: 4, failed: 0 } as never)
    const results = await a.fetch(`/files/${output_file_id}/content`, { key })
    const lines = (await results.text()).trim().split('\n')
    expect(lines.map(line => JSON.parse(line).custom_id)).toEqual(['one', 'two', 'three', 'four'])
    expect(provider.lines.map(({ what, by }) => `${what} ${by}`)).toEqual([
      ...['one b', 'two b', 'two a', 'three a', 'four a'],
    ])
    await a.end('SIGTERM')
  })
} else test.skip('several servers: Postgres is not installed, and cannot be', () => undefined)

/** Starts a provider of chats and videos that notes whose key it is asked with. */
function startProvider() {
  const polls: string[] = []
  const lines: { what: string; by: string }[] = []
  const { promise: isFree, resolve: answerAll } = Promise.withResolvers<void>()
  let status = 'in_progress'
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const by = request.headers.get('authorization')?.replace('Bearer ', '') ?? ''
      if (request.method === 'GET') {
        polls.push(by)
        return Response.json({ id: 'v', status, seconds: '4' })
      }
      if (!request.url.endsWith('/chat/completions'))
        return Response.json({ id: 'v', status: 'queued' })
      const { messages } = (await request.json()) as { messages: { content: string }[] }
      lines.push({ what: messages[0]?.content ?? '', by })
      if (lines.length === 2) await isFree
      return Response.json({
        id: 'x',
        choices: [{ message: { role: 'assistant', content: 'Yes' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 5, completion_tokens: 5 },
      })
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}/v1`,
    lines,
    countPolls: (name: string) => polls.filter(by => by === name).length,
    /** Has every video be done. */
    end: () => {
      status = 'completed'
    },
    answerAll,
    [Symbol.asyncDispose]: () => server.stop(true),
  }
}
