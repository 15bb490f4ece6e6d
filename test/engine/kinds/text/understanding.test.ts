import { describe, expect, test } from 'bun:test'
import { fitToEndpoint, listUnsupported } from '../../../../src/engine/kinds/text/understanding.ts'
import type { Params } from '../../../../src/language/params.ts'
import { buildEndpoint, buildTextCall } from '../../../support/call.ts'

const supporting = (...names: string[]) => buildEndpoint({ supported_parameters: new Set(names) })
const params: Params = {
  temperature: 1,
  seed: 1,
  max_tokens: 5,
  reasoning: { effort: 'low' },
  response_format: { type: 'json_object' },
}
const tools = [{ type: 'function' as const, name: 'f' }]

describe('parameters', () => {
  test('are all supported by an endpoint that lists none: the call is the same', () => {
    const call = buildTextCall({ params, tools })
    expect(fitToEndpoint(call, buildEndpoint())).toBe(call)
  })

  test('are ignored if the endpoint lists others; the rest are forwarded', () => {
    const call = buildTextCall({ params, tools })
    const left = fitToEndpoint(call, supporting('temperature'))
    expect(left.params).toEqual({ temperature: 1 })
    expect(left.tools).toEqual([])
    expect(call.params).toEqual(params)
    expect(call.tools).toEqual(tools)
  })

  test('are supported under any of their public names', () => {
    expect(
      listUnsupported(
        supporting(
          'max_completion_tokens',
          'reasoning_effort',
          'structured_outputs',
          'seed',
          'temperature',
        ),
        buildTextCall({ params }),
      ),
    ).toEqual([])
  })

  test('of tools bring their choice along', () => {
    const call = buildTextCall({
      params: { tool_choice: 'auto', parallel_tool_calls: true },
      tools,
    })
    expect(listUnsupported(supporting('tools'), call)).toEqual([])
    expect(listUnsupported(supporting('seed'), call)).toEqual([
      'tool_choice',
      'parallel_tool_calls',
      'tools',
    ])
  })

  test('that the public list does not know are always forwarded', () => {
    const call = buildTextCall({
      params: { service_tier: 'flex', modalities: ['text'] },
      extra: { enable_thinking: true },
    })
    expect(fitToEndpoint(call, supporting('seed'))).toBe(call)
  })
})
