import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { readCpu } from '../src/cli/bench/procfs.ts'
import { startBalancer } from '../test/support/balancer.ts'
import { type Node, type Nodes, openNodes } from '../test/support/nodes.ts'
import { hasPostgres } from '../test/support/postgres.ts'
import { buildLocalConfig, readAddress, startServer } from '../test/support/server.ts'
import { hasValkey, startValkey } from '../test/support/valkey.ts'

const USAGE = `bun run bench:nodes [limits] [cost] [changes] [outage]
  [rolling] [versions] [workers]

Runs gateways over one Postgres and one bucket, each part anew, and prints what was promised and what
came of it. What workers give shows where callers, workers and Postgres have cores of their own. Ends with 1 where a promise is broken. Load: 12 or 32 callers on loopback.
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
/** Of a rolling restart: pieces of a stream, milliseconds between two, and whole calls a second. */
const [STREAMS, CHUNKS, INTERVAL, RATE] = [200, 50, 500, 75]
/** In milliseconds: how long programs of two versions serve together. */
const TOGETHER = Number(process.env.TOGETHER ?? 120_000)
/** What the next version of the tables adds: a column of rows that are sealed, and a table. */
const NEXT = `
alter table keys add column note text collate "C";

create table extras (name text collate "C" primary key, note text collate "C");
`
const COUNT_WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
const toNanos = (usd: number) => BigInt(Math.round(usd * 1e9))

const PARTS: Record<string, () => Promise<boolean>> = {
  limits: async () =>
    [await measureLimits(), await measureOneKey(), await measureRates()].every(isKept => isKept),
  cost: measureCost,
  changes: measureChanges,
  outage: measureOutage,
  workers: measureWorkers,
  rolling: measureRolling,
  versions: measureVersions,
}

const { positionals } = parseArgs({ allowPositionals: true })
if (positionals.some(name => !(name in PARTS)) || !(await hasPostgres())) {
  process.stderr.write(USAGE)
  process.exit(2)
}
/** What the running part has opened, and ends itself, unless a signal ends it. */
const opened = new Set<Promise<AsyncDisposable>>()
const stopped = Promise.withResolvers<'stopped'>()
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => stopped.resolve('stopped'))
let isWell = true
for (const name of positionals.length > 0 ? positionals : Object.keys(PARTS)) {
  const kept = await Promise.race([PARTS[name]?.(), stopped.promise])
  isWell &&= kept === true
  if (kept === 'stopped') {
    const ends = [...opened].map(async opening => (await opening)[Symbol.asyncDispose]())
    await Promise.allSettled(ends)
    break
  }
  opened.clear()
}
process.exit(isWell ? 0 : 1)

function report(name: string, values: Record<string, unknown>, isKept: boolean): boolean {
  process.stdout.write(`${isKept ? 'kept  ' : 'BROKEN'} ${name} ${JSON.stringify(values)}\n`)
  return isKept
}

function keep<Opened extends AsyncDisposable>(opening: Promise<Opened>): Promise<Opened> {
  opened.add(opening)
  return opening
}

function open(config: Record<string, unknown>): Promise<Nodes> {
  return keep(openNodes(config))
}

async function startThree(nodes: Nodes): Promise<[Node, Node, Node]> {
  return [await nodes.start(), await nodes.start(), await nodes.start()]
}

async function makeKey(node: Node, key: string, limit: number | null): Promise<string> {
  const made = await node.fetch('/keys', { key, json: { name: 'bench', limit } })
  if (!made.ok) throw new Error(`There is no key: ${made.status} ${await made.text()}`)
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
  await using nodes = await open({ models })
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

/** How much of one key three nodes spend, and how many calls are refused before that is all. */
async function measureOneKey(): Promise<boolean> {
  await using nodes = await open({ models })
  const started = await startThree(nodes)
  const LIMIT = 0.06
  const key = await makeKey(started[0], nodes.management_key, LIMIT)
  const refusedAt: number[] = []
  const paidAt: number[] = []
  let refusals = 0
  const statuses = await load(
    CALLERS,
    async i => {
      const begunAt = performance.now()
      const status = await call(started[i % 3] as Node, key)
      if (status === 200) paidAt.push(begunAt)
      if (status === 402) refusedAt.push(performance.now())
      return status
    },
    status => {
      refusals = status === 402 ? refusals + 1 : 0
      return refusals > 3 * CALLERS
    },
  )
  const spent = Number(await nodes.read('select sum(nanos) from gateway.spend')) / 1e9
  // More calls of the same price have begun after them, and were paid, than what two calls of each
  // server set aside: fewer may be paid by what calls give back that have cost less than that.
  const needless = refusedAt.filter(at => paidAt.filter(begunAt => begunAt > at).length > 6).length
  const share = spent / LIMIT
  return report(
    'three nodes alive, one key: at least 99 % of it is spent, and no 402 is needless',
    { spent, of: LIMIT, share, needless, statuses: Object.fromEntries(statuses) },
    share >= 0.99 && share <= 1 && needless === 0,
  )
}

/** 600 calls in a minute and no more: how often Postgres is asked for them, without Valkey and with. */
async function measureRates(): Promise<boolean> {
  if (!(await hasValkey())) return report('rates', { valkey: 'not installed' }, false)
  await using valkey = await keep(startValkey())
  const found: Record<string, unknown> = {}
  let isExact = true
  for (const [name, storage] of Object.entries({
    without: {},
    with: { valkey: { url: valkey.url } },
  })) {
    await using nodes = await open({ models, storage, limits: { requests_per_minute: 600 } })
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
  await using nodes = await open({ models })
  const started = await startThree(nodes)
  const key = await makeKey(started[0], nodes.management_key, 100)
  await using sqlite = await keep(startServer({ config: { models } }))
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
  // The first two are of programs that are still being compiled.
  for (let i = 0; i < 9; i++) {
    const own = await measure(sqlite, sqlite.inference_key)
    const shared = await measure(started[0], key)
    if (i < 2) continue
    pairs.push({ sqlite: Math.round(own), node: Math.round(shared), ratio: shared / own })
  }
  const database = readCpu(nodes.postgres.pid)
  const lentBefore = await exchanges()
  const locks = watchLocks(nodes)
  const statuses = await load(
    WIDE_CALLERS,
    i => call(started[i % 3] as Node, key),
    (_, i) => i >= 6_000,
  )
  const calls = statuses.get(200) ?? 0
  const waited = await locks.end()
  const trips = ((await exchanges()) - lentBefore) / calls
  const perCall = (readCpu(nodes.postgres.pid) - database) / calls
  const ratio = pairs.map(pair => pair.ratio).sort((a, b) => a - b)[3] ?? 0
  return report(
    'a call: at most 1.1 × of the SQLite node, and 0.1 trips to lend',
    {
      pairs: pairs.map(pair => ({ ...pair, ratio: Number(pair.ratio.toFixed(2)) })),
      ...{ postgresPerCall: Math.round(perCall), fullAtCallsPerSecond: Math.round(1e6 / perCall) },
      ...{ waitedForLocksPerCall: Math.round((waited * 1000) / calls) },
      ...{ trips: Number(trips.toFixed(3)), statuses: Object.fromEntries(statuses) },
    },
    ratio <= 1.1 && trips <= 0.1,
  )
}

/** Sums how long connections of Postgres wait for each other's locks, in milliseconds, by many looks. */
function watchLocks(nodes: Nodes) {
  const startedAt = performance.now()
  let [looks, waiting, isOver] = [0, 0, false]
  const watch = async () => {
    for (; !isOver; looks++) {
      waiting += Number(await nodes.read(COUNT_WAITING))
      await Bun.sleep(50)
    }
  }
  const watching = watch()
  return {
    async end(): Promise<number> {
      isOver = true
      await watching
      return (waiting / looks) * (performance.now() - startedAt)
    },
  }
}

/** How soon a key that one node disables is refused at another. */
async function measureChanges(): Promise<boolean> {
  await using nodes = await open({ models })
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
  await using nodes = await open({ models })
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

/** How many calls one and two workers of one port answer in a second, in turns. */
async function measureWorkers(): Promise<boolean> {
  await using nodes = await open({ models })
  const rates: Record<string, number[]> = { 1: [], 2: [] }
  const all = new Set<number>()
  for (let turn = 0; turn < 3; turn++)
    for (const workers of ['1', '2']) {
      const node = await nodes.start(undefined, {}, ['--workers', workers])
      const measure = async (calls: number) => {
        const since = performance.now()
        const isOver = (_: number, i: number) => i >= calls - WIDE_CALLERS
        const statuses = await load(WIDE_CALLERS, () => call(node, nodes.inference_key), isOver)
        for (const status of statuses.keys()) all.add(status)
        return Math.round((calls * 1000) / (performance.now() - since))
      }
      await measure(2_000)
      rates[workers]?.push(await measure(4_000))
      await node.end('SIGTERM')
    }
  return report('workers: every call is answered', { callsPerSecond: rates }, all.size === 1)
}

/** Three nodes behind a balancer, each restarted in turn under streams that last longer than a stop. */
async function measureRolling(): Promise<boolean> {
  const upstream = Bun.spawn([process.execPath, 'src/cli/start.ts', 'bench-part', 'upstream'], {
    env: { ...process.env, CHUNKS: String(CHUNKS), INTERVAL_MS: String(INTERVAL) },
    // It ends with its standard input.
    ...{ stdin: 'pipe', stdout: 'pipe', stderr: 'pipe' },
  })
  await using ends = new AsyncDisposableStack()
  ends.defer(() => upstream.kill())
  const provider = await readAddress(upstream, new Response(upstream.stderr).text())
  await using nodes = await open(buildLocalConfig(provider))
  await using balancer = startBalancer()
  const args = ['--notice', '1', '--drain', '60', '--no-access-log']
  const start = async (data?: string) => {
    const node = await nodes.start(data, {}, args)
    balancer.add(node.url)
    return node
  }
  const started = [await start(), await start(), await start()]
  await balancer.waitForReady(3)
  const key = await makeKey(started[0] as Node, nodes.management_key, 1_000)
  const [ids, failures, running] = [new Set<string>(), [] as string[], new Set<Promise<void>>()]
  const ask = async (stream: boolean) => {
    try {
      const answer = await fetch(`${balancer.url}/api/v1/chat/completions`, {
        ...{ method: 'POST', headers: { authorization: `Bearer ${key}` } },
        body: JSON.stringify({ ...BODY, max_tokens: 2_000, stream }),
      })
      const text = await answer.text()
      const pieces =
        text.match(/"delta":\{"content":"|"role":"assistant","content":"/g)?.length ?? 0
      const isWhole = stream ? text.endsWith('data: [DONE]\n\n') && pieces >= CHUNKS : pieces === 1
      if (answer.status !== 200 || !isWhole)
        failures.push(`${stream ? 'stream' : 'call'}: ${answer.status} ${text.slice(-200)}`)
      else ids.add(/"id":"([^"]+)"/.exec(text)?.[1] ?? '')
    } catch (thrown) {
      failures.push(`${stream ? 'stream' : 'call'}: ${thrown}`)
    }
  }
  const follow = (work: Promise<void>) => {
    const followed = work.finally(() => running.delete(followed))
    running.add(followed)
  }
  let [isOver, calls, streams] = [false, 0, 0]
  // They begin one after the other, as those of clients do.
  const keepStreaming = async (i: number) => {
    await Bun.sleep((i * CHUNKS * INTERVAL) / STREAMS / 4)
    for (; !isOver; streams++) await ask(true)
  }
  for (let i = 0; i < STREAMS; i++) follow(keepStreaming(i))
  const timer = setInterval(() => {
    calls += 1
    follow(ask(false))
  }, 1_000 / RATE)
  await Bun.sleep((CHUNKS * INTERVAL) / 3)
  const seconds: number[] = []
  for (const node of started) {
    const since = performance.now()
    node.process.kill('SIGTERM')
    await node.process.exited
    seconds.push(Math.round((performance.now() - since) / 1_000))
    if (node.process.exitCode !== 0) failures.push(`a node ended with ${node.process.exitCode}`)
    started.push(await start(node.data))
    await balancer.waitForReady(3)
    if (started.length === 6) break
  }
  isOver = true
  clearInterval(timer)
  await Promise.all(running)
  for (const node of started.slice(3)) await node.end('SIGTERM')
  const [spent, charged, recorded, records, stranded] = [
    await nodes.read('select sum(nanos) from gateway.spend'),
    await nodes.read('select sum(nanos) from gateway.ledger'),
    await nodes.read('select sum(total_cost) from gateway.generations'),
    await nodes.read('select count(*) from gateway.generations'),
    await nodes.read('select sum(amount) from gateway.leases'),
  ]
  const { stdout } = await nodes.run(['doctor'])
  const isSound = !stdout.includes('WRONG')
  for (const failure of failures.slice(0, 10)) process.stdout.write(`       ${failure}\n`)
  const isOnce = Number(records) === ids.size && ids.size === calls + streams
  return report(
    'three nodes restarted in turn: no stream cut, no call failed, each on record once',
    {
      ...{ calls, streams, failures: failures.length, records: Number(records), seconds },
      ...{ charged: charged === spent, recorded: recorded === spent, stranded: Number(stranded) },
      ...{ doctor: isSound },
    },
    failures.length === 0 &&
      isOnce &&
      charged === spent &&
      recorded === spent &&
      stranded === 0n &&
      isSound,
  )
}

/** Makes the program of the next version: this one, whose tables have one more step. */
function makeNextProgram(): { program: string[]; directory: string } {
  const directory = mkdtempSync(join(tmpdir(), 'gateway-next-'))
  for (const name of ['src', 'package.json', 'tsconfig.json', 'bunfig.toml'])
    cpSync(name, join(directory, name), { recursive: true })
  symlinkSync(resolve('node_modules'), join(directory, 'node_modules'))
  const tables = join(directory, 'src/store/postgres')
  writeFileSync(join(tables, 'next.sql'), NEXT)
  const edit = (name: string, change: (text: string) => string) => {
    const before = readFileSync(join(tables, name), 'utf8')
    const after = change(before)
    if (after === before) throw new Error(`${name} has another form`)
    writeFileSync(join(tables, name), after)
  }
  edit('schema.sql', text => text + NEXT)
  edit('schema.ts', text =>
    `import next from './next.sql' with { type: 'text' }\n${text}`.replace(
      /^const STEPS = \[(.*)\]$/m,
      'const STEPS = [$1, next]',
    ),
  )
  return { program: [process.execPath, join(directory, 'src/cli/start.ts')], directory }
}

/** A program of the next version beside this one, until the tables are for the next alone. */
async function measureVersions(): Promise<boolean> {
  const { program, directory } = makeNextProgram()
  await using nodes = await open({ models })
  const { management_key } = nodes
  const older = [await nodes.start(), await nodes.start()] as const
  const key = await makeKey(older[0], management_key, 100)
  let [isOver, changes, wrong] = [false, 0, 0]
  const servers: Node[] = [...older]
  const loading = load(
    CALLERS,
    async i => {
      await Bun.sleep(50)
      return call(servers[i % servers.length] as Node, key)
    },
    () => isOver,
  )
  servers.push(await nodes.start(undefined, {}, [], program))
  servers.push(await nodes.start(undefined, {}, [], program))
  const expectStatus = (status: number, expected: number) => {
    changes += 1
    if (status !== expected) wrong += 1
  }
  for (const until = performance.now() + TOGETHER; performance.now() < until; ) {
    for (const [maker, other] of [
      [servers[0], servers[2]],
      [servers[3], servers[1]],
    ] as [Node, Node][]) {
      const json = { name: `key ${changes}`, limit: 1 }
      const made = await maker.fetch('/keys', { key: management_key, json })
      const { key, data } = (await made.json()) as { key: string; data: { hash: string } }
      expectStatus(await call(other, key), 200)
      const change = (node: Node, init: RequestInit) =>
        node.fetch(`/keys/${data.hash}`, {
          ...{ key: management_key, headers: { 'content-type': 'application/json' } },
          ...init,
        })
      const body = JSON.stringify({ name: `${json.name} again`, limit: 2 })
      expectStatus((await change(other, { method: 'PATCH', body })).status, 200)
      expectStatus((await change(maker, { method: 'DELETE' })).status, 200)
    }
    await Bun.sleep(500)
  }
  isOver = true
  const statuses = await loading
  const doctors = [await nodes.run(['doctor'], program), await nodes.run(['doctor'])]
  // That they differ, and that the tables of a newer one are not compared, is as it should be.
  const listWrong = (text: string) =>
    text
      .split('\n')
      .filter(line => line.includes('WRONG') && !/^nodes|they are of a newer program/.test(line))
  await nodes.postgres.run('update gateway.gate set oldest = version')
  const ends = await Promise.all(
    older.map(node => Promise.race([node.process.exited, Bun.sleep(10_000).then(() => 'serves')])),
  )
  const [refused, goesOn] = [await nodes.run(['keys', 'list']), await call(servers[2] as Node, key)]
  for (const node of servers.slice(2)) await node.end('SIGTERM')
  rmSync(directory, { recursive: true, force: true })
  const [spent, charged, recorded] = [
    await nodes.read('select sum(nanos) from gateway.spend'),
    await nodes.read('select sum(nanos) from gateway.ledger'),
    await nodes.read('select sum(total_cost) from gateway.generations'),
  ]
  const lines = refused.stderr.trim().split('\n')
  return report(
    'this version beside the next: every call and change as with one, until the tables refuse it',
    {
      ...{ statuses: Object.fromEntries(statuses), changes, wrong },
      ...{ charged: charged === spent, recorded: recorded === spent },
      doctors: doctors.map(({ stdout }) => listWrong(stdout)),
      ...{ ends, refused: [refused.code, ...lines], goesOn },
    },
    [...statuses.keys()].every(status => status === 200) &&
      wrong === 0 &&
      charged === spent &&
      recorded === spent &&
      doctors.every(({ stdout }) => listWrong(stdout).length === 0) &&
      ends.every(code => code === 0) &&
      refused.code !== 0 &&
      lines.length === 1 &&
      goesOn === 200,
  )
}
