import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/base/errors.ts'
import { Filtering } from '../../../src/engine/filtering.ts'
import { buildGuardrailStages } from '../../../src/engine/routing-metadata.ts'
import type { CompiledRule } from '../../../src/limits/filters/rule.ts'

const rule = (more: Partial<CompiledRule>): CompiledRule => ({
  guardrail_id: 'g-1',
  scope: 'key',
  filter: 'email',
  action: 'redact',
  order: 0,
  label: '[EMAIL]',
  name: 'Email address',
  detectors: [],
  ...more,
})

function stages(
  rules: [Partial<CompiledRule>, count: number, where?: 'input' | 'output'][],
  error: GatewayError | null = null,
) {
  const filtering = new Filtering({ getInputFilters: () => null, outputFilters: null })
  for (const [more, count, where = 'input'] of rules) filtering.noteMatch(rule(more), where, count)
  return buildGuardrailStages(filtering, error)
}

const INJECTION = { filter: 'regex-prompt-injection', action: 'block' } as const
const blocked = new GatewayError('permission_denied', 'Request blocked', {
  metadata: { patterns: ['ignore all previous instructions'] },
})

test('H.6 an injection that blocked a call shows the caller’s own phrases', () => {
  expect(stages([[INJECTION, 1]], blocked)).toEqual([
    {
      type: 'guardrail',
      name: 'regex_pi_detection',
      guardrail_id: 'g-1',
      guardrail_scope: 'api-key',
      summary: 'Blocked: prompt injection detected (1 pattern matched)',
      data: {
        action: 'blocked',
        detected: true,
        engines: ['regex'],
        patterns: ['ignore all previous instructions'],
        where: 'input',
        count: 1,
      },
    },
  ])
})

describe('other findings show their label, since the pattern may be the very word', () => {
  test.each<[more: Partial<CompiledRule>, count: number, summary: string, action: string]>([
    [{}, 1, 'Redacted: email detected (found 1 time)', 'redacted'],
    [
      { action: 'flag', filter: 'pattern' },
      3,
      'Flagged: pattern detected (found 3 times)',
      'flagged',
    ],
    [
      { action: 'block', filter: 'Project names' },
      2,
      'Blocked: Project names detected (found 2 times)',
      'blocked',
    ],
  ])('%j', (more, count, summary, action) => {
    const [stage] = stages([[more, count, 'output']], blocked)
    expect(stage).toMatchObject({
      name: 'content-filter',
      summary,
      data: { action, patterns: [more.filter ?? 'email'], where: 'output', count },
    })
  })

  test('an injection that passed does, too', () => {
    expect(stages([[{ ...INJECTION, action: 'flag' }, 2]], blocked)).toMatchObject([
      {
        summary: 'Flagged: prompt injection detected (2 patterns matched)',
        data: { patterns: ['regex-prompt-injection'] },
      },
    ])
  })
})

test('each finding has the scope of its own rule', () => {
  const found = stages([
    [{ scope: 'workspace' }, 1],
    [{ scope: 'workspace' }, 1],
    [{ scope: 'member', filter: 'phone' }, 1],
    [{ guardrail_id: 'g-2', filter: 'ssn' }, 1],
  ])
  expect(
    found.map(({ guardrail_id, guardrail_scope, data }) => [
      guardrail_id,
      guardrail_scope,
      data?.count,
    ]),
  ).toEqual([
    ['g-1', 'workspace', 2],
    ['g-1', 'member', 1],
    ['g-2', 'api-key', 1],
  ])
})

test('a call without filters has none', () => {
  expect(buildGuardrailStages(null, null)).toEqual([])
  expect(stages([])).toEqual([])
})
