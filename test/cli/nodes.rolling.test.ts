import { expect, test } from 'bun:test'
import { startBalancer } from '../support/balancer.ts'
import { waitUntil } from '../support/chat.ts'
import { openNodes } from '../support/nodes.ts'
import { hasPostgres } from '../support/postgres.ts'
import { buildLocalConfig } from '../support/server.ts'
import { completion, delta, ending, sseHead, startUpstream } from '../support/upstream.ts'

if (await hasPostgres())
  test('servers that are replaced in turn cut no stream, and fail no call', async () => {
    await using upstream = await startUpstream()
    upstream.answer(({ json }) =>
      (json as { stream?: boolean }).stream
        ? [sseHead(), delta('Hel'), { wait: 'end' }, delta('lo'), ending()]
        : completion('Hello'),
    )
    await using nodes = await openNodes(buildLocalConfig(upstream.url))
    await using balancer = startBalancer()
    const start = async (data?: string) => {
      const node = await nodes.start(data, {}, ['--notice', '1', '--drain', '600'])
      balancer.add(node.url)
      return node
    }
    const [a, b] = [await start(), await start()]
    await balancer.waitForReady(2)
    const { inference_key: key } = nodes
    const ask = (stream: boolean) =>
      fetch(`${balancer.url}/api/v1/chat/completions`, {
        ...{ method: 'POST', headers: { authorization: `Bearer ${key}` } },
        body: JSON.stringify({
          ...{ model: 'acme/small', stream, messages: [{ role: 'user', content: 'Hi' }] },
        }),
      })
    const streams = await Promise.all(Array.from({ length: 8 }, () => ask(true)))
    const statuses: number[] = []
    let isOver = false
    const calling = (async () => {
      while (!isOver) {
        const answer = await ask(false).catch(() => null)
        await answer?.text()
        statuses.push(answer?.status ?? 0)
      }
    })()

    a.process.kill('SIGTERM')
    await balancer.waitForReady(1)
    const list = async () => {
      const { stdout } = await nodes.run(['nodes', 'list', '--json'])
      return JSON.parse(stdout).data as { id: string; state: string }[]
    }
    // The balancer hears of it before the next heartbeat tells the other servers.
    let states: Awaited<ReturnType<typeof list>> = []
    await waitUntil(async () => {
      states = await list()
      return states.some(({ state }) => state === 'draining')
    })
    expect(states.map(({ state }) => state).toSorted()).toEqual(['draining', 'serving'])
    const c = await start()
    await balancer.waitForReady(2)
    const second = states.find(({ state }) => state === 'serving')?.id ?? ''
    const drained = await nodes.run(['nodes', 'drain', second])
    expect([drained.code, drained.stdout]).toEqual([
      0,
      `${second} drains: it ends with its last call\n`,
    ])
    await balancer.waitForReady(1)
    const refused = await nodes.run(['nodes', 'drain', '-1'])
    expect([refused.code, refused.stderr]).toEqual([
      3,
      'gateway: There is no node -1: gateway nodes list shows them\n',
    ])
    expect([a.process.exitCode, b.process.exitCode]).toEqual([null, null])
    upstream.open('end')
    for (const stream of streams) expect(await stream.text()).toEndWith('data: [DONE]\n\n')
    expect([await a.process.exited, await b.process.exited]).toEqual([0, 0])
    isOver = true
    await calling
    await c.end('SIGTERM')
    expect(new Set(statuses)).toEqual(new Set([200]))
    expect(await nodes.read('select count(*) from gateway.generations')).toBe(
      BigInt(statuses.length + streams.length),
    )
    expect(await nodes.read('select sum(amount) from gateway.leases')).toBe(0n)
    expect(await nodes.read('select count(*) from gateway.nodes where left_at is null')).toBe(0n)
  })
else
  test.skip('servers that are replaced: Postgres is not installed, and cannot be', () => undefined)
