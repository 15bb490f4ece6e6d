import { expect, test } from 'bun:test'
import { GatewayError } from '../../../src/base/errors.ts'
import { exposeReason, filterReason } from '../../../src/engine/attempt/reason.ts'
import { Filtering } from '../../../src/engine/filtering.ts'
import type { Run } from '../../../src/engine/run.ts'
import { openFilters } from '../../../src/limits/filters.ts'

const REASON = { code: 'bad', message: 'Project Apollo is not a word' }
const REFUSED = new GatewayError('invalid_request', 'Refused', { reason: REASON })

async function filter(action: 'redact' | 'block' | 'flag', output: boolean) {
  const rule = { guardrail_id: 'g', scope: 'key' as const, pattern: 'Apollo', label: '[NAME]' }
  const filtering = new Filtering(await openFilters([{ ...rule, action, output }]))
  const error = await filterReason({ filtering } as Run, REFUSED)
  return { message: error.reason?.message, findings: filtering.findings }
}

const FOUND = { guardrail_id: 'g', filter: '[NAME]', where: 'output' as const, count: 1 }

test('filters of the answer read what a provider says of its failure', async () => {
  expect(await filter('redact', true)).toEqual({
    message: 'Project [NAME] is not a word',
    findings: [{ ...FOUND, action: 'redact' }],
  })
  expect(await filter('block', true)).toEqual({
    message: null,
    findings: [{ ...FOUND, action: 'block' }],
  })
  expect((await filter('flag', true)).message).toBe(REASON.message)
  expect(await filter('block', false)).toEqual({ message: REASON.message, findings: [] })
})

test('a reason is exposed once, and only where the request was refused', () => {
  const exposed = exposeReason(REFUSED)
  expect(exposed.message).toBe(`Refused: ${REASON.message}`)
  expect(exposeReason(exposed)).toBe(exposed)
  const failed = new GatewayError('provider_unavailable', 'Failed', { reason: REASON })
  expect(exposeReason(failed)).toBe(failed)
})
