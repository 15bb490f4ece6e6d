import { afterEach, beforeEach, describe, expect, jest, spyOn, test } from 'bun:test'
import { endUnrecorded, limitStop } from '../../../src/cli/commands/serve/stop.ts'
import type { Facts } from '../../../src/cli/log.ts'
import { listHeldCalls, lockStore } from '../../support/books.ts'
import { COST, waitUntil } from '../../support/chat.ts'
import { buildLocalConfig, type LocalServer, startLocalServer } from '../../support/server.ts'
import { completion, startUpstream, type Upstream } from '../../support/upstream.ts'

let upstream: Upstream
let server: LocalServer
let lines: [event: string, facts: Facts][]
let codes: number[]

beforeEach(async () => {
  upstream = await startUpstream()
  upstream.plan(completion('Hello'))
  server = await startLocalServer(buildLocalConfig(upstream.url))
  lines = []
  codes = []
})

afterEach(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const stopping = () => ({
  gateway: server.gateway,
  log: (_: string, event: string, facts: Facts) => void lines.push([event, facts]),
  exit: (code: number) => void codes.push(code),
})

const ASKED = { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }] }

/** Makes a call whose record waits for a store that another process holds. */
async function leaveUnrecorded(): Promise<() => Promise<void>> {
  const unlock = lockStore(server)
  const answer = server.fetch('/chat/completions', { json: ASKED })
  await waitUntil(() => server.gateway.recorder.listPending().length > 0)
  return async () => {
    unlock()
    expect((await answer).status).toBe(200)
  }
}

describe('a server that stops while its store takes no records', () => {
  test('leaves what its calls came to in the journal, and ends with 1', async () => {
    const recover = await leaveUnrecorded()
    await endUnrecorded(stopping())
    expect([lines.map(([event]) => event), codes]).toEqual([['calls.unrecorded'], [1]])
    expect(listHeldCalls(server.data)).toMatchObject([{ spent: COST_NANOS }])
    await recover()
  })

  test('and its journal no lines, logs what each call came to, and ends with 1', async () => {
    const recover = await leaveUnrecorded()
    const full = Object.assign(new Error('no space left'), { code: 'ENOSPC' })
    const update = spyOn(server.gateway.journal.holds, 'updateSpent').mockImplementation(() => {
      throw full
    })
    await endUnrecorded(stopping())
    update.mockRestore()
    expect(lines).toEqual([
      [
        'call.lost',
        {
          generation: expect.stringMatching(/^gen-/),
          nanos: String(COST_NANOS),
          cause: expect.stringContaining('ENOSPC'),
          consequence: 'neither the store nor the journal could be written',
        },
      ],
    ])
    expect(codes).toEqual([1])
    await recover()
  })
})

test('a stop ends when its time is over, whatever it waits for', async () => {
  jest.useFakeTimers()
  try {
    limitStop(stopping(), 30_000)
    jest.advanceTimersByTime(37_999)
    expect([lines, codes]).toEqual([[], []])
    jest.advanceTimersByTime(1)
  } finally {
    jest.useRealTimers()
  }
  await waitUntil(() => codes.length > 0)
  expect([lines.map(([event]) => event), codes]).toEqual([['stop.overdue'], [1]])
})

const COST_NANOS = BigInt(Math.round(COST * 1e9))
