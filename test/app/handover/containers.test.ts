import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { giveContainers, takeContainers } from '../../../src/app/handover/containers.ts'
import { Cancellation } from '../../../src/base/cancellation.ts'
import { unavailable } from '../../../src/base/errors.ts'
import { runCommands } from '../../../src/network/containers/commands.ts'
import { WarmContainers } from '../../../src/network/containers/warm.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { openChannels } from '../../support/channels.ts'
import { waitUntil } from '../../support/chat.ts'
import { testGateway } from '../../support/gateway.ts'
import { FakeSandbox } from '../../support/sandboxes/fake.ts'

let gateway: Gateway
/** The server that takes over: the same store and blobs, and homes of its own. */
let next: Gateway
let sandbox: FakeSandbox
let channels: Awaited<ReturnType<typeof openChannels>>

beforeEach(async () => {
  sandbox = new FakeSandbox()
  gateway = await testGateway({
    sandboxes: [sandbox],
    config: { sandbox: { kind: 'just-bash' } },
  })
  next = Object.assign(Object.create(gateway), { warm: new WarmContainers() })
  channels = await openChannels()
})

afterEach(async () => {
  channels.close()
  await next.warm.close()
  await gateway.close()
})

/** Has both sides know of each other, as a takeover does. */
async function handOver(): Promise<void> {
  channels.next.answer({ ...takeContainers(next, channels.next), told: () => true })
  giveContainers(gateway, channels.old)
  await channels.old.ask('told')
}

/** Runs one command in the container of a session, and returns what it says. */
async function run(server: Gateway, text: string, cancellation = new Cancellation()) {
  const { workspace_id } = getOperator(gateway)
  const { results } = await runCommands(server, {
    ...{ workspace_id, holder: 'k', name: 'sess_report', file_ids: [], commands: [text] },
    ...{ hosts: [], timeoutMs: 1_000, maxOutput: 100, cancellation },
  })
  return results[0]?.stdout
}

/** Begins a command that writes when its box is told to, and returns that box. */
async function begin(server: Gateway, text: string) {
  const ended = run(server, text)
  const findBox = () => sandbox.open_boxes.find(({ commands }) => commands.at(-1)?.text === text)
  await waitUntil(() => findBox() !== undefined)
  const box = findBox()
  return { ended, go: () => box?.go.resolve() }
}

test('an idle container ends, and the next server has its files', async () => {
  await run(gateway, 'write a.txt one')
  await handOver()
  expect(sandbox.open_boxes).toEqual([])
  expect(await run(next, 'read a.txt')).toBe('one')
})

test('a container in use is used by one server at a time, each with the files of the other', async () => {
  const slow = await begin(gateway, 'slow a.txt one')
  await handOver()
  const waiting = run(next, 'read a.txt')
  slow.go()
  await slow.ended
  expect(await waiting).toBe('one')
  await run(next, 'write a.txt two')
  expect(await run(gateway, 'read a.txt')).toBe('two')
  await run(gateway, 'write b.txt three')
  expect(await run(next, 'read b.txt')).toBe('three')
  expect(sandbox.open_boxes.length).toBe(1)
})

test('commands of both that wait for each other all end', async () => {
  await handOver()
  const slow = await begin(next, 'slow a.txt one')
  const later = [run(gateway, 'read a.txt'), run(next, 'read a.txt'), run(gateway, 'read a.txt')]
  await channels.old.ask('told')
  slow.go()
  expect(await Promise.all(later)).toEqual(['one', 'one', 'one'])
})

test('a command that no longer waits gives nothing away', async () => {
  await handOver()
  const slow = await begin(next, 'slow a.txt one')
  const cancellation = new Cancellation()
  const left = run(gateway, 'read a.txt', cancellation)
  await channels.old.ask('told')
  cancellation.cancel(unavailable('left'))
  await expect(left).rejects.toThrow('left')
  slow.go()
  await slow.ended
  expect(await run(next, 'read a.txt')).toBe('one')
  expect(await run(gateway, 'read a.txt')).toBe('one')
})

test('what a server that has died had borrowed can be used', async () => {
  const slow = await begin(gateway, 'slow a.txt one')
  await handOver()
  const waiting = run(next, 'write b.txt two')
  channels.old.close()
  await waiting
  slow.go()
  await slow.ended.catch(() => undefined)
  expect(await run(next, 'read b.txt')).toBe('two')
})
