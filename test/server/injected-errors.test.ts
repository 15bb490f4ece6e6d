import { expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  buildRoutesConfig,
  fetchGeneration,
  isCompleteAnswer,
  readGenerationId,
  sendChat,
  waitUntil,
} from '../support/chat.ts'
import { PROGRAM, type Server, startServer } from '../support/server.ts'
import { completion, startUpstream } from '../support/upstream.ts'

/*
 * The kernel answers the n-th call of a kind, at the files that hold money, with an error: strace
 * puts that in its place. What a client was told has happened is on record afterwards.
 */

const { GATEWAY_TEST_LONG: isLong, GATEWAY_TEST_BINARY: isBuilt } = process.env
const onStrace = test.skipIf(!isBuilt || !existsSync('/usr/bin/strace'))

/** A kind of call, its error, and which of them fail: the first, and how many after it. */
type Fault = [call: string, error: string, first: number, more: number]

const FAULTS: Fault[] = isLong
  ? ['pwrite64', 'write', 'fsync'].flatMap(call =>
      Array.from({ length: 500 / 10 }, (_, i): Fault => {
        return [call, i % 2 === 0 ? 'EIO' : 'ENOSPC', 1 + i * 10, 9]
      }),
    )
  : [
      ['pwrite64', 'EIO', 4, 0],
      ['pwrite64', 'ENOSPC', 9, 20],
      ['write', 'EIO', 2, 3],
      ['fsync', 'EIO', 1, 3],
    ]

const MONEY = ['gateway.db', 'gateway.db-wal', 'log.1', 'log.2', 'ledger.head']
const CALLS = 12
const AT_ONCE = 4

onStrace.each(FAULTS)(
  'S-04 a %s that fails with %s from number %i on, %i more times, loses no answer',
  async (call, error, first, more) => {
    await using upstream = await startUpstream()
    upstream.answer(() => completion('Hello'))
    const config = buildRoutesConfig({ 'acme/small': { local: upstream.url } })
    const data = mkdtempSync(join(tmpdir(), 'gateway-injected-'))
    const trace = `${data}.trace`
    const injecting = [
      ...['strace', '-D', '-f', '-qq', '-o', trace, '-e', `trace=${call}`, '-e', 'signal=none'],
      ...['-e', `inject=${call}:error=${error}:when=${first}..${first + more}`],
      ...MONEY.flatMap(name => ['-P', join(data, name)]),
    ]
    const faulty = await startFaulty({ config, data, program: [...injecting, ...PROGRAM] })
    const answered = faulty ? await callUntilOver(faulty) : []
    await faulty?.kill()
    await waitUntil(() => existsSync(trace))
    if (!isLong) expect(readFileSync(trace, 'utf8')).toContain('(INJECTED)')
    await using server = await startServer({ config, data })
    const key = faulty?.inference_key ?? ''
    for (const id of answered) expect(await fetchGeneration(server, id, key)).toMatchObject({ id })
    expect((await sendChat(server, {}, { key }).outcome()).status).toBe(faulty ? 200 : 401)
  },
)

/** Starts a server, or returns null where it says that it cannot and ends. */
async function startFaulty(options: Parameters<typeof startServer>[0]): Promise<Server | null> {
  try {
    return await startServer(options)
  } catch (thrown) {
    expect(String(thrown)).toMatch(/cannot be (written|read)|disk|I\/O|EIO|ENOSPC|space/i)
    return null
  }
}

/** Makes calls, some at once. Returns the ids of those that were answered to their end. */
async function callUntilOver(server: Server): Promise<string[]> {
  const answered: string[] = []
  for (let made = 0; made < CALLS; made += AT_ONCE) {
    const calls = Array.from({ length: AT_ONCE }, () => sendChat(server, {}).outcome())
    for (const outcome of await Promise.all(calls)) {
      if (isCompleteAnswer(outcome)) answered.push(readGenerationId(outcome))
      else expect([500, 502, 503]).toContain(outcome.status)
    }
  }
  return answered
}
