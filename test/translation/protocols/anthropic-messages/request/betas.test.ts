import { describe, expect, test } from 'bun:test'
import type { TextCall } from '../../../../../src/language/call.ts'
import {
  buildRequest,
  buildVertexRequest,
} from '../../../../../src/translation/protocols/anthropic-messages/request.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../../../support/call.ts'

const header = (
  more: Partial<TextCall>,
  provider: Parameters<typeof buildProvider>[0] = { slug: 'anthropic' },
) =>
  buildRequest(buildTextCall(more), buildEndpoint({ provider: buildProvider(provider) })).headers?.[
    'anthropic-beta'
  ]

const FILE: TextCall['messages'] = [
  { role: 'user', blocks: [{ type: 'file', file: { file_id: 'file_1' } }] },
]

describe('beta features', () => {
  test('sends no header without beta features', () => {
    expect(header({})).toBeUndefined()
  })

  test('sends Anthropic every feature that the caller names, each once', () => {
    expect(
      header({ betas: ['brand-new-2027-01-01', 'context-1m-2025-08-07', 'brand-new-2027-01-01'] }),
    ).toBe('brand-new-2027-01-01,context-1m-2025-08-07')
    expect(
      header(
        { betas: ['brand-new-2027-01-01'] },
        { slug: 'second', base_url: 'https://api.anthropic.com/v1' },
      ),
    ).toBe('brand-new-2027-01-01')
  })

  test('trap 36: sends other hosts only the features that they know', () => {
    const betas = ['brand-new-2027-01-01', 'context-1m-2025-08-07']
    expect(header({ betas }, {})).toBe('context-1m-2025-08-07')
    expect(header({ betas }, { base_url: 'https://api.anthropic.com.example/v1' })).toBe(
      'context-1m-2025-08-07',
    )
    expect(buildVertexRequest(buildTextCall({ betas }), buildEndpoint()).headers).toEqual({
      'anthropic-beta': 'context-1m-2025-08-07',
    })
    expect(header({ betas: betas.slice(0, 1) }, {})).toBeUndefined()
  })

  test('sends only well-formed feature names', () => {
    expect(header({ betas: ['a b', 'a\r\nx-api-key: 1', '', 'A', 'ok-1'] })).toBe('ok-1')
  })

  test('adds the feature for a file stored at the provider', () => {
    expect(header({ messages: FILE })).toBe('files-api-2025-04-14')
    expect(header({ messages: FILE, betas: ['files-api-2025-04-14'] })).toBe('files-api-2025-04-14')
  })

  test('adds the features that tools and parameters require', () => {
    const tools: TextCall['tools'] = [
      'code_execution_20250825',
      'web_search_20250305',
      'constructor',
      7,
    ].map(type => ({
      type: 'other',
      dialect: 'messages',
      value: { type, name: 'x' },
    }))
    expect(header({ tools })).toBe('code-execution-2025-08-25')
    const extra = {
      context_management: { edits: [{ type: 'compact_20260112' }] },
      mcp_servers: [{}],
      fallbacks: [],
      speed: 'standard',
      output_config: { task_budget: { type: 'tokens', total: 20_000 } },
    }
    expect(header({ dialect: 'messages', extra })).toBe(
      'context-management-2025-06-27,mcp-client-2025-04-04,' +
        'compact-2026-01-12,task-budgets-2026-03-13',
    )
    expect(header({ extra })).toBeUndefined()
    const image = { type: 'image', source: { type: 'file', file_id: 'file_1' } }
    expect(
      header({
        messages: [
          { role: 'user', blocks: [{ type: 'other', dialect: 'messages', value: image }] },
        ],
      }),
    ).toBe('files-api-2025-04-14')
  })
})
