import { expect, test } from 'bun:test'
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

  test('three servers spend what limits allow and no more, though one is killed meanwhile', async () => {
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
} else test.skip('several servers: Postgres is not installed, and cannot be', () => undefined)
