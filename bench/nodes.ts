import { parseArgs } from 'node:util'
import { readCpu } from '../src/cli/bench/procfs.ts'
import { type Node, type Nodes, openNodes } from '../test/support/nodes.ts'
import { hasPostgres } from '../test/support/postgres.ts'
import { startServer } from '../test/support/server.ts'
import { hasValkey, startValkey } from '../test/support/valkey.ts'

const USAGE = `GATEWAY_TEST_BINARY=dist/gateway bun run bench/nodes.ts [limits] [cost] [changes] [outage]

Runs three gateways over one Postgres and one bucket, each part anew, and prints what was promised and
what came of it. Ends with 1 where a promise is broken. Load: 12 or 32 callers on loopback.
`

const dollar = { prompt: 1, completion: 1 }
const models = [
  {
    id: 'acme/small',
    endpoints: [{ provider: 'sandbox', model: 'echo', usd_per_million_tokens: dollar }],
  },
]
const BODY = {
  ...{ model: 'acme/small', max_tokens: 40 },
  messages: [{ role: 'user', content: 'Hello there, how are you?' }],
}
const [CALLERS, WIDE_CALLERS] = [12, 32]
const toNanos = (usd: number) => BigInt(Math.round(usd * 1e9))

const PARTS: Record<string, () => Promise<boolean>> = {
  limits: async () => (await measureLimits()) && (await measureRates()),
  cost: measureCost,
  changes: measureChanges,
  outage: measureOutage,
}

const { positionals } = parseArgs({ allowPositionals: true })
if (positionals.some(name => !(name in PARTS)) || !(await hasPostgres())) {
  process.stderr.write(USAGE)
  process.exit(2)
}
let isWell = true
for (const name of positionals.length > 0 ? positionals : Object.keys(PARTS))
  isWell = (await PARTS[name]?.()) !== false && isWell
process.exit(isWell ? 0 : 1)

function report(name: string, values: Record<string, unknown>, isKept: boolean): boolean {
  process.stdout.write(`${isKept ? 'kept  ' : 'BROKEN'} ${name} ${JSON.stringify(values)}\n`)
  return isKept
}

async function startThree(nodes: Nodes): Promise<[Node, Node, Node]> {
  return [await nodes.start(), await nodes.start(), await nodes.start()]
}

async function makeKey(node: Node, key: string, limit: number | null): Promise<string> {
  const made = await node.fetch('/keys', { key, json: { name: 'bench', limit } })
  return ((await made.json()) as { key: string }).key
}

async function call(server: Pick<Node, 'fetch'>, key: string): Promise<number> {
  try {
    const answer = await server.fetch('/chat/completions', { key, json: BODY, keepalive: true })
    await answer.text()
    return answer.status
  } catch {
    return 0
  }
}

/** Has callers call until one is told to stop; counts the answers by status. */
async function load(
  count: number,
  make: (i: number) => Promise<number>,
  isOver: (status: number, i: number) => boolean,
): Promise<Map<number, number>> {
  const statuses = new Map<number, number>()
  await Promise.all(
    Array.from({ length: count }, async (_, caller) => {
      for (let i = caller; ; i += count) {
        const status = await make(i)
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
        if (isOver(status, i)) return
      }
    }),
  )
  return statuses
}

/** Twenty keys in a workspace that has less than they have; one node is killed under load. */
async function measureLimits(): Promise<boolean> {
  await using nodes = await openNodes({ models })
  const { postgres, management_key: key, read } = nodes
  const started = await startThree(nodes)
  const alive: Node[] = [...started]
  const [LIMIT, WHOLE] = [0.005, 0.06]
  const keys: string[] = []
  for (let i = 0; i < 20; i++) keys.push(await makeKey(started[0], key, LIMIT))
  const listed = await started[0].fetch('/workspaces', { key })
  const [workspace] = ((await listed.json()) as { data: { id: string }[] }).data
  await started[0].fetch(`/workspaces/${workspace?.id}/budgets/lifetime`, {
    ...{ key, method: 'PUT', body: JSON.stringify({ limit_usd: WHOLE }) },
    headers: { 'content-type': 'application/json' },
  })
  let [looks, over, isOver] = [0, 0n, false]
  const watch = (async () => {
    while (!isOver) {
      const rows = (await postgres.run('select meter, used::text from gateway.accounts')) as {
        meter: string
        used: string
      }[]
      looks += 1
      for (const { meter, used } of rows) {
        const limit = toNanos(meter.startsWith('own key') ? LIMIT : WHOLE)
        if (BigInt(used) - limit > over) over = BigInt(used) - limit
      }
      await Bun.sleep(20)
    }
  })()
  const killedAt = performance.now() + 5_000
  let refusals = 0
  const statuses = await load(
    CALLERS,
    i => {
      if (alive.length === 3 && performance.now() > killedAt)
        void alive.splice(1, 1)[0]?.end('SIGKILL')
      return call(alive[i % alive.length] as Node, keys[i % keys.length] as string)
    },
    status => {
      refusals = status === 402 ? refusals + 1 : 0
      return refusals > 3 * keys.length
    },
  )
  isOver = true
  await watch
  const again = await nodes.start(started[1].data)
  const [spent, charged, recorded] = [
    await read('select sum(nanos) from gateway.spend'),
    await read('select sum(nanos) from gateway.ledger'),
    await read('select sum(total_cost) from gateway.generations'),
  ]
  for (const node of [...alive, again]) await node.end('SIGTERM')
  const stranded = await read('select sum(amount) from gateway.leases')
  const { stdout } = await nodes.run(['doctor'])
  const isSound = !stdout.includes('WRONG')
  return report(
    'three nodes, one killed: nothing over a limit, charges = spend = records',
    {
      ...{ looks, over: Number(over), spent: Number(spent) / 1e9, of: WHOLE },
      ...{ charged: charged === spent, recorded: recorded === spent, stranded: Number(stranded) },
      ...{ doctor: isSound, statuses: Object.fromEntries(statuses) },
    },
    over === 0n && charged === spent && recorded === spent && stranded === 0n && isSound,
  )
}

/** 600 calls in a minute and no more: how often Postgres is asked for them, without Valkey and with. */
async function measureRates(): Promise<boolean> {
  if (!(await hasValkey())) return report('rates', { valkey: 'not installed' }, false)
  await using valkey = await startValkey()
  const found: Record<string, unknown> = {}
  let isExact = true
  for (const [name, storage] of Object.entries({
    without: {},
    with: { valkey: { url: valkey.url } },
  })) {
    await using nodes = await openNodes({ models, storage, limits: { requests_per_minute: 600 } })
    await nodes.postgres.run("alter system set track_functions = 'pl'")
    await nodes.postgres.run('select pg_reload_conf()')
    const started = await startThree(nodes)
    const key = await makeKey(started[0], nodes.management_key, null)
    for (const node of started) await call(node, nodes.management_key)
    await awaitNewMinute()
    const statuses = await load(
      CALLERS,
      i => call(started[i % 3] as Node, key),
      (_, i) => i >= 3_000 - CALLERS,
    )
    for (const node of started) await node.end('SIGTERM')
    const trips = await nodes.read(
      "select sum(calls) from pg_stat_user_functions where funcname = 'take_counts'",
    )
    found[name] = { trips: Number(trips), statuses: Object.fromEntries(statuses) }
    isExact &&= statuses.get(200) === 600 && statuses.get(429) === 2_400
  }
  return report('three nodes, 600 calls a minute: exactly 600 of 3,000', found, isExact)
}

/** Waits until a minute has most of its time before it. */
async function awaitNewMinute(): Promise<void> {
  const passed = Date.now() % 60_000
  if (passed > 30_000) await Bun.sleep(60_000 - passed + 50)
}

/** What a call costs a node, Postgres, and a node with SQLite in the same run; trips to lend. */
async function measureCost(): Promise<boolean> {
  await using nodes = await openNodes({ models })
  const started = await startThree(nodes)
  const key = await makeKey(started[0], nodes.management_key, 100)
  const sqlite = await startServer({ config: { models } })
  const measure = async (server: Pick<Node, 'fetch' | 'process'>, by: string) => {
    const warm = async (calls: number) =>
      load(
        WIDE_CALLERS,
        () => call(server, by),
        (_, i) => i >= calls - WIDE_CALLERS,
      )
    await warm(2_000)
    const before = readCpu(server.process.pid)
    await warm(3_000)
    return (readCpu(server.process.pid) - before) / 3_000
  }
  const pairs = []
  const exchanges = async () =>
    ((await nodes.postgres.run('select lent from gateway.nodes')) as { lent: string | null }[])
      .map(({ lent }) => (lent ? (JSON.parse(lent) as { number: number }).number : 0))
      .reduce((one, other) => one + other, 0)
  for (let i = 0; i < 3; i++) {
    const own = await measure(sqlite, sqlite.inference_key)
    const shared = await measure(started[0], key)
    pairs.push({ sqlite: Math.round(own), node: Math.round(shared), ratio: shared / own })
  }
  const database = readCpu(nodes.postgres.pid)
  const lentBefore = await exchanges()
  const statuses = await load(
    WIDE_CALLERS,
    i => call(started[i % 3] as Node, key),
    (_, i) => i >= 6_000,
  )
  const calls = statuses.get(200) ?? 0
  const trips = ((await exchanges()) - lentBefore) / calls
  const perCall = (readCpu(nodes.postgres.pid) - database) / calls
  await sqlite.stop()
  const ratio = pairs.map(pair => pair.ratio).sort((a, b) => a - b)[1] ?? 0
  return report(
    'a call: at most 1.1 × of the SQLite node, and 0.1 trips to lend',
    {
      pairs: pairs.map(pair => ({ ...pair, ratio: Number(pair.ratio.toFixed(2)) })),
      ...{ postgresPerCall: Math.round(perCall), fullAtCallsPerSecond: Math.round(1e6 / perCall) },
      ...{ trips: Number(trips.toFixed(3)), statuses: Object.fromEntries(statuses) },
    },
    ratio <= 1.1 && trips <= 0.1,
  )
}

/** How soon a key that one node disables is refused at another. */
async function measureChanges(): Promise<boolean> {
  await using nodes = await openNodes({ models })
  const [a, b] = [await nodes.start(), await nodes.start()]
  const milliseconds: number[] = []
  for (let i = 0; i < 10; i++) {
    const made = await a.fetch('/keys', { key: nodes.management_key, json: { name: `key ${i}` } })
    const { key, data } = (await made.json()) as { key: string; data: { hash: string } }
    while ((await call(b, key)) !== 200);
    await a.fetch(`/keys/${data.hash}`, {
      ...{ key: nodes.management_key, method: 'PATCH', body: JSON.stringify({ disabled: true }) },
      headers: { 'content-type': 'application/json' },
    })
    const since = performance.now()
    while ((await call(b, key)) === 200);
    milliseconds.push(Math.round(performance.now() - since))
  }
  const worst = Math.max(...milliseconds)
  return report(
    'a key disabled at one node is refused at another',
    { milliseconds },
    worst <= 1_500,
  )
}

/** Postgres stopped for 30 seconds: no call of a known key fails, and each is on record. */
async function measureOutage(): Promise<boolean> {
  await using nodes = await openNodes({ models })
  const started = await startThree(nodes)
  const key = await makeKey(started[0], nodes.management_key, null)
  for (const node of started) await call(node, key)
  const startedAt = performance.now()
  const elapsed = () => performance.now() - startedAt
  let isBack = false
  const outage = (async () => {
    await Bun.sleep(2_000)
    await nodes.postgres.stop()
    await Bun.sleep(30_000)
    await nodes.postgres.start()
    isBack = true
  })()
  const statuses = await load(
    CALLERS,
    async i => {
      await Bun.sleep(50)
      return call(started[i % 3] as Node, key)
    },
    () => isBack && elapsed() > 37_000,
  )
  await outage
  for (const node of started) await node.end('SIGTERM')
  const records = Number(await nodes.read('select count(*) from gateway.generations'))
  const calls = [...statuses.values()].reduce((one, other) => one + other, 0)
  const isWhole = statuses.size === 1 && records === calls + started.length
  return report(
    'Postgres stopped for 30 s: no call of a known key fails, all are on record',
    { statuses: Object.fromEntries(statuses), records: records - started.length },
    isWhole,
  )
}
