import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Attention } from '../../../src/cli/commands/serve/workers.ts'
import { readStatus } from '../../../src/cli/status-socket.ts'
import { waitUntil } from '../../support/chat.ts'
import { type Node, openNodes } from '../../support/nodes.ts'
import { hasPostgres } from '../../support/postgres.ts'
import { runGateway } from '../../support/server.ts'

const usage = [
  ...['0', '1.5', '1e9'].map(count => ({
    args: ['--workers', count],
    config: {},
    says: 'from 1 to 64, or auto',
  })),
  { args: ['--worker', '2'], config: {}, says: 'Did you mean --workers?' },
  {
    args: ['--workers', '2'],
    config: {},
    says: '--workers: expected storage.postgres and storage.files: s3',
  },
  {
    args: ['--workers', '2', '--takeover'],
    config: { storage: { postgres: { url: 'postgres://127.0.0.1:9/none' } } },
    says: '--takeover: not with storage.postgres: stop the server that runs',
  },
  { args: ['--workers', '2'], config: { modles: [] }, says: 'modles' },
]

for (const { args, config, says } of usage)
  test(`serve ${args.join(' ')} with ${JSON.stringify(config)} is refused in one line`, async () => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-workers-'))
    writeFileSync(join(data, 'gateway.yaml'), JSON.stringify(config))
    const { code, stdout, stderr } = await runGateway(['serve', ...args, '--data', data])
    rmSync(data, { recursive: true, force: true })
    expect({ code, stdout, lines: stderr.trim().split('\n').length }).toEqual({
      ...{ code: 2, stdout: '', lines: 1 },
    })
    expect(stderr).toContain(says)
  })

test('what is silent for long is found, but not after a pause of who listens', () => {
  const attention = new Attention<string>(90_000, 0)
  const lookUntil = (from: number, to: number) => {
    const found: string[] = []
    for (let now = from; now <= to; now += 1_000) found.push(...attention.look(now))
    return found
  }
  attention.hear('a', 0)
  attention.hear('b', 0)
  expect(lookUntil(1_000, 60_000)).toEqual([])
  attention.hear('b', 60_000)
  expect(lookUntil(61_000, 91_000)).toEqual(['a'])
  attention.forget('a')
  // All stand still, with this process.
  expect(lookUntil(1_000_000, 1_090_000)).toEqual([])
  expect(lookUntil(1_091_000, 1_091_000)).toEqual(['b'])
})

test('a silence that is none, or of no workers, is refused', async () => {
  const explain = async (...flags: string[]) => {
    const { code, stdout, stderr } = await runGateway(['serve', ...flags])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    return stderr
  }
  const none = '--worker-silence: expected --workers beside it'
  expect(await explain('--worker-silence', '5')).toContain(none)
  for (const text of ['0', '-1', 'abc', '1e9', 'NaN'])
    expect(await explain('--workers', '2', '--worker-silence', text)).toContain(
      `argument '${text}' is invalid`,
    )
})

if (await hasPostgres()) {
  const dollar = { prompt: 1, completion: 1 }

  interface ToldWorker {
    worker: number
    pid: number
    running_calls: number
  }

  const listWorkers = async ({ data }: Node): Promise<ToldWorker[]> =>
    JSON.parse((await readStatus(data)) ?? '{}').workers ?? []

  /** Whether a process is there. One that has ended and was not waited for is not. */
  const isAlive = async (pid: number) =>
    Bun.file(`/proc/${pid}/stat`)
      .text()
      .then(stat => !/^\d+ \(.*\) Z/s.test(stat))
      .catch(() => false)

  const stopsListening = ({ url }: Node) =>
    waitUntil(() =>
      fetch(url, { keepalive: false }).then(
        () => false,
        () => true,
      ),
    )

  test('workers share a port: each is replaced, none outlives its parent, and fewer settle what more have left', async () => {
    await using provider = startProvider()
    await using nodes = await openNodes({
      providers: { local: { protocol: 'openai-chat', base_url: provider.url, api_key: 'none' } },
      models: [
        {
          id: 'acme/small',
          endpoints: [{ provider: 'sandbox', model: 'echo', usd_per_million_tokens: dollar }],
        },
        {
          id: 'acme/slow',
          endpoints: [{ provider: 'local', model: 'up', usd_per_million_tokens: dollar }],
        },
      ],
    })
    const { management_key, read } = nodes
    const ask = (node: Node, key: string, body: object) =>
      node.fetch('/chat/completions', {
        ...{ key, json: { messages: [{ role: 'user', content: 'Hello' }], ...body } },
        // Each call has a connection of its own, so that the kernel spreads them.
        headers: { connection: 'close' },
      })
    const openStream = async (node: Node) => {
      const answer = await ask(node, nodes.inference_key, { model: 'acme/slow', stream: true })
      const reader = answer.body?.getReader() as ReadableStreamDefaultReader<Uint8Array>
      await reader.read()
      return async () => {
        let text = ''
        for (let step = await reader.read(); !step.done; step = await reader.read())
          text += new TextDecoder().decode(step.value)
        return text.trim().endsWith('data: [DONE]')
      }
    }
    /** Opens streams until every worker has one. */
    const openStreams = async (node: Node) => {
      const ends = [await openStream(node)]
      while ((await listWorkers(node)).some(({ running_calls }) => running_calls === 0))
        ends.push(await openStream(node))
      return () => Promise.all(ends.map(end => end().catch(() => false)))
    }

    // One that is killed is replaced; streams of the other go on.
    const node = await nodes.start(undefined, {}, ['--workers', '2'])
    const endStreams = await openStreams(node)
    const [first, second] = (await listWorkers(node)) as [ToldWorker, ToldWorker]
    const scraped = await (await fetch(`${node.url}/metrics`)).text()
    expect(scraped).toContain(`gateway_running_calls{worker="1"} ${first.running_calls}\n`)
    expect(scraped).toContain(`gateway_running_calls{worker="2"} ${second.running_calls}\n`)
    expect(scraped.match(/^# TYPE gateway_running_calls /gm)).toHaveLength(1)
    process.kill(second.pid, 'SIGKILL')
    await waitUntil(async () =>
      (await listWorkers(node)).some(({ worker, pid }) => worker === 2 && pid !== second.pid),
    )
    const beside = await runGateway(['serve', '--workers', '1', '--port', '0', '--data', node.data])
    expect(beside).toMatchObject({
      ...{ code: 4, stdout: '' },
      stderr: expect.stringContaining(`Another gateway serves from ${node.data}: it is held by`),
    })
    expect(await nodes.postgres.run('select name from gateway.nodes order by name')).toEqual([
      { name: `${hostname()}/1` },
      { name: `${hostname()}/2` },
    ])

    // Without their parent they finish what runs, and end.
    const workers = await listWorkers(node)
    process.kill(node.process.pid, 'SIGKILL')
    await node.process.exited
    await stopsListening(node)
    provider.release()
    expect((await endStreams()).filter(isWhole => isWhole)).toHaveLength(first.running_calls)
    for (const { pid } of workers) await waitUntil(async () => !(await isAlive(pid)))
    expect((await node.stderr).match(/"event":"worker.ended"/g)).toHaveLength(1)

    // All are killed while they spend what has a limit.
    const again = await nodes.start(node.data, {}, ['--workers', '2'])
    const made = await again.fetch('/keys', {
      ...{ key: management_key, json: { name: 'limited', limit: 0.01 } },
    })
    const { key } = (await made.json()) as { key: string }
    let answered = 0
    const spend = async () => {
      for (;;) {
        const answer = await ask(again, key, { model: 'acme/small', max_tokens: 40 })
        if (answer.status === 200) answered += 1
        await answer.text()
      }
    }
    const spending = Promise.allSettled([spend(), spend(), spend(), spend()])
    await waitUntil(() => answered > 20)
    const pids = [again.process.pid, ...(await listWorkers(again)).map(({ pid }) => pid)]
    for (const pid of pids) process.kill(pid, 'SIGKILL')
    await spending
    expect(await read('select sum(amount) from gateway.leases')).toBeGreaterThan(0n)

    // One alone settles both, and streams end whole when it is stopped.
    const alone = await nodes.start(node.data, {}, ['--workers', '1'])
    provider.hold()
    const ends = [await openStream(alone), await openStream(alone)]
    alone.process.kill('SIGTERM')
    await stopsListening(alone)
    provider.release()
    expect(await Promise.all(ends.map(end => end()))).toEqual([true, true])
    expect(await alone.process.exited).toBe(0)
    const spent = await read('select sum(nanos) from gateway.spend')
    expect(await read('select sum(nanos) from gateway.ledger')).toBe(spent)
    expect(await read('select sum(total_cost) from gateway.generations')).toBe(spent)
    expect(await read('select count(*) from gateway.generations')).toBeGreaterThanOrEqual(
      BigInt(answered),
    )
    expect(await read('select sum(amount) from gateway.leases')).toBe(0n)

    // One that is killed while it is stopped is told of, and is no good end.
    const killed = await nodes.start(node.data, {}, ['--workers', '1'])
    provider.hold()
    const cut = await openStream(killed)
    const [last] = (await listWorkers(killed)) as [ToldWorker]
    killed.process.kill('SIGTERM')
    await stopsListening(killed)
    process.kill(last.pid, 'SIGKILL')
    await cut().catch(() => false)
    provider.release()
    expect(await killed.process.exited).toBe(1)
    expect(await killed.stderr).toMatch(/"event":"worker.ended".*"signal":"SIGKILL"/)

    // One that stands still is killed, and replaced.
    const watched = await nodes.start(node.data, {}, ['--workers', '2', '--worker-silence', '4'])
    const [, still] = (await listWorkers(watched)) as [ToldWorker, ToldWorker]
    process.kill(still.pid, 'SIGSTOP')
    await waitUntil(async () => !(await isAlive(still.pid)))
    await waitUntil(async () => (await listWorkers(watched)).length === 2)
    await watched.end('SIGTERM')
    const told = await watched.stderr
    expect(told).toMatch(/"event":"worker.silent","worker":2,.*"consequence":"it is killed"/)
    expect(told).toMatch(/"event":"worker.ended","worker":2,.*"signal":"SIGKILL"/)
    expect(told).toMatch(/"event":"worker.restarted","worker":2/)

    // What keeps one from starting is said once.
    const env = { GATEWAY_SECRET: 'another secret of tests that is long enough' }
    const refused = await runGateway(
      ['serve', '--workers', '2', '--port', '0', '--data', node.data],
      { env },
    )
    expect(refused).toMatchObject({ code: 4, stdout: '' })
    expect(refused.stderr.trim().split('\n')).toEqual([
      expect.stringContaining('sealed with another secret than GATEWAY_SECRET'),
    ])
  })
} else test.skip('workers: Postgres is not installed, and cannot be', () => undefined)

/** Starts a provider whose streams begin at once, and end when they are released. */
function startProvider() {
  let { promise, resolve } = Promise.withResolvers<void>()
  const toEvent = (delta: object, finish_reason: string | null = null) =>
    `data: ${JSON.stringify({ id: 'x', choices: [{ index: 0, delta, finish_reason }] })}\n\n`
  const server = Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1', idleTimeout: 0 },
    fetch: () =>
      new Response(
        new ReadableStream({
          async start(controller) {
            controller.enqueue(toEvent({ content: 'Yes' }))
            await promise
            controller.enqueue(`${toEvent({}, 'stop')}data: [DONE]\n\n`)
            controller.close()
          },
        }),
        { headers: { 'content-type': 'text/event-stream' } },
      ),
  })
  return {
    url: `http://127.0.0.1:${server.port}/v1`,
    hold() {
      ;({ promise, resolve } = Promise.withResolvers<void>())
    },
    release: () => resolve(),
    [Symbol.asyncDispose]: () => server.stop(true),
  }
}
