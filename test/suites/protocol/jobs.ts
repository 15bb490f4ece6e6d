import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Endpoint } from '../../../src/core/catalog/models.ts'
import { GatewayError } from '../../../src/core/errors.ts'
import type { JobProtocol, JobState, Protocol } from '../../../src/core/protocols/protocol.ts'
import { buildVideoCall } from '../../support/call.ts'
import type { ProtocolSample } from '../protocol.ts'

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
