import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/base/errors.ts'
import type { Json } from '../../../src/base/json.ts'
import type { Endpoint } from '../../../src/resources/models/catalog.ts'
import type {
  JobProtocol,
  JobState,
  Protocol,
} from '../../../src/translation/protocols/protocol.ts'
import { buildVideoCall } from '../../support/call.ts'
import type { ProtocolSample } from '../protocol.ts'

/** Words of providers, and what they mean: whatever does not go on ends the wait. */
const WORDS: [word: string, status: string][] = [
  ['queued', 'pending'],
  ['IN_QUEUE', 'pending'],
  ['THROTTLED', 'pending'],
  ['processing', 'in_progress'],
  ['inProgress', 'in_progress'],
  ['In progress', 'in_progress'],
  ['canceled', 'cancelled'],
  ['CANCELLED', 'cancelled'],
  ['aborted', 'cancelled'],
  ['error', 'failed'],
  ['ERROR', 'failed'],
  ['expired', 'failed'],
  ['rejected', 'failed'],
  ['finished', 'ends'],
  ['odd', 'ends'],
  ['constructor', 'ends'],
  ['__proto__', 'ends'],
]

/** Tests what every protocol promises whose answers begin a job. */
export function testJobs(
  name: string,
  protocol: Protocol<'video'>,
  endpoint: Endpoint,
  sample: ProtocolSample<'video'>,
): void {
  const job = protocol.job as JobProtocol
  const call = buildVideoCall()
  const begun = protocol.parseAnswer(sample.answer, call, endpoint).at(-1)
  const upstream_id = begun?.type === 'job' ? begun.upstream_id : ''
  const upstream = { upstream_id, upstreamModel: endpoint.upstreamModel }
  const readEnd = (body: unknown): JobState =>
    job.readResult ? job.readResult(200, body) : job.readState(body, upstream)

  describe(name, () => {
    test('begins a job, and asks about it', () => {
      expect(upstream_id).not.toBe('')
      const { method = 'POST', path } = job.buildPoll(upstream)
      expect(`${method} ${path}`).toBe(sample.polls)
    })

    test('knows that it goes on, and why it failed', () => {
      expect(job.readState(sample.running, upstream).status).toMatch(/^(pending|in_progress)$/)
      const failed = job.readState(sample.failed, upstream)
      expect([failed.status, failed.outputs]).toEqual(['failed', []])
      expect(failed.error).toBe('Too dark')
    })

    const running = sample.running as Json
    const word = Object.keys(running).find(
      name => job.readState({ ...running, [name]: 'canceled' }, upstream).status === 'cancelled',
    )

    test.each(WORDS)('reads the word %s as %s', (value, status) => {
      if (word === undefined) return expect(name).toStartWith('gemini')
      const body = { ...running, [word]: value }
      const read = job.readState(body, upstream)
      // What is completed may be asked for next, and without a video it has failed.
      const ends = status === 'ends' ? /^(failed|completed)$/ : new RegExp(`^${status}$`)
      expect(read.status).toMatch(ends)
      if (read.status === 'completed') expect(job.buildResult ?? read.outputs[0]).toBeTruthy()
    })

    test('has the result of a job whose word is not known', () => {
      const known = Object.keys(sample.completed ?? {}).find(name => name === word)
      const body = {
        ...(sample.completed as Json),
        ...(known === undefined ? {} : { [known]: 'odd' }),
        progress: 100,
      }
      expect([readEnd(body).status, readEnd(body).outputs]).toEqual(['completed', sample.outputs])
    })

    test('knows where its video is', () => {
      const { status, outputs } = readEnd(sample.completed)
      expect([status, outputs]).toEqual(['completed', sample.outputs])
    })

    test('takes nothing for an id that would lead elsewhere', () => {
      for (const id of ['', '..', '../keys', 'a/../../b', 'a?b', 'a#b', 'a b', 7, null, {}]) {
        const [field = 'id'] = Object.keys(sample.answer)
        const answer = { ...sample.answer, [field]: id }
        expect(() => protocol.parseAnswer(answer, call, endpoint)).toThrow(GatewayError)
      }
    })

    test('throws provider_unavailable, and nothing else, for any other body', () => {
      const bodies = fc.jsonValue().map(value => value as unknown)
      fc.assert(
        fc.property(bodies, body => {
          for (const read of [() => job.readState(body, upstream), () => readEnd(body)])
            try {
              expect(read().outputs.every(output => typeof output === 'string')).toBe(true)
            } catch (thrown) {
              expect(GatewayError.from(thrown).type).toBe('provider_unavailable')
            }
        }),
        { numRuns: 100 },
      )
    })

    test('takes only web addresses for where a video is', () => {
      const completed = JSON.stringify(sample.completed)
      for (const url of ['file:///etc/passwd', 'data:video/mp4;base64,AAAA', 'javascript:1']) {
        const hostile = completed.replaceAll(/https?:[^"]+/g, url)
        if (hostile !== completed) expect(readEnd(JSON.parse(hostile)).status).toBe('failed')
      }
    })
  })
}
