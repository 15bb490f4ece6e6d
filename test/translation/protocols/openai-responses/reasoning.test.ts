import { describe, expect, test } from 'bun:test'
import type { TextPart } from '../../../../src/language/part.ts'
import { appendDetail, type ReasoningDetail } from '../../../../src/language/reasoning.ts'
import { parseAnswer } from '../../../../src/translation/protocols/openai-responses/reader.ts'
import { renderReasoningItems } from '../../../../src/translation/protocols/openai-responses/reasoning.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../../support/call.ts'

const at = (slug: string) => buildEndpoint({ provider: buildProvider({ slug }) })
const back = (details: ReasoningDetail[] | null, slug = 'openai') =>
  renderReasoningItems({ type: 'reasoning', text: 'Hm', details }, at(slug))

const FORMAT = { format: 'openai-responses-v1' }
const summary = (text: string, more: object = {}): ReasoningDetail => ({
  type: 'reasoning.summary',
  summary: text,
  ...FORMAT,
  ...more,
})
const encrypted = (data: string, more: object = {}): ReasoningDetail => ({
  type: 'reasoning.encrypted',
  data,
  ...FORMAT,
  ...more,
})
const summaryText = (text: string) => ({ type: 'summary_text', text })

/** Returns the entries that a client collects from an answer with these items. */
function collected(output: unknown[], slug: string): ReasoningDetail[] {
  const details: ReasoningDetail[] = []
  const given: TextPart[] = parseAnswer(
    { id: 'r', status: 'completed', output },
    buildTextCall(),
    at(slug),
  )
  for (const part of given)
    if (part.type === 'reasoning-delta')
      for (const detail of part.details) appendDetail(details, detail)
  return details
}

describe('trap 97: reasoning that is sent back', () => {
  test.each(['openai', 'azure', 'xai', 'local'])('has the items of %s, in order', slug => {
    const items = [
      {
        type: 'reasoning',
        id: 'rs_1',
        summary: [summaryText('**One**'), summaryText('**Two**')],
        encrypted_content: 'gAAA',
      },
      { type: 'reasoning', id: 'rs_2', summary: [], encrypted_content: 'gBBB' },
      {
        type: 'reasoning',
        id: 'rs_3',
        summary: [summaryText('**Three**')],
        encrypted_content: 'gCCC',
      },
    ]
    expect(back(collected(items, slug), slug)).toEqual(items)
  })

  test('is the thinking itself if the server does not encrypt it', () => {
    const items = [
      {
        type: 'reasoning',
        id: 'rs_1',
        summary: [],
        content: [{ type: 'reasoning_text', text: 'Hm.' }],
      },
    ]
    expect(back(collected(items, 'vllm'), 'vllm')).toEqual(items)
  })

  test('joins entries of one id, and without ids ends an item with encrypted content', () => {
    expect(back([encrypted('gAAA', { id: 'rs_1' }), summary('One', { id: 'rs_1' })])).toEqual([
      { type: 'reasoning', id: 'rs_1', summary: [summaryText('One')], encrypted_content: 'gAAA' },
    ])
    expect(back([summary('One'), encrypted('gAAA'), summary('Two'), encrypted('gBBB')])).toEqual([
      { type: 'reasoning', summary: [summaryText('One')], encrypted_content: 'gAAA' },
      { type: 'reasoning', summary: [summaryText('Two')], encrypted_content: 'gBBB' },
    ])
    expect(back([summary('One'), encrypted('gAAA', { id: 'rs_1' })])).toEqual([
      { type: 'reasoning', id: 'rs_1', summary: [summaryText('One')], encrypted_content: 'gAAA' },
    ])
  })

  test('is left out without encrypted content, because no provider has stored it', () => {
    expect(back([summary('One', { id: 'rs_1' })])).toEqual([])
    expect(back([{ type: 'reasoning.text', text: 'Hm', id: 'rs_1', ...FORMAT }])).toEqual([])
  })

  test('trap 96: goes only to the provider that made it', () => {
    const details = [encrypted('gAAA', { id: 'rs_1' })]
    expect(back(details, 'azure')).toEqual([])
    expect(back(details, 'xai')).toEqual([])
    expect(
      back([
        encrypted('x', { format: 'anthropic-claude-v1' }),
        { type: 'reasoning.text', text: 'Hm' },
      ]),
    ).toEqual([])
    expect(back(null)).toEqual([])
  })

  test('ignores malformed entries', () => {
    const odd = [
      encrypted('', { data: 7 }),
      summary('', { summary: null, id: 7 }),
      { type: 'reasoning.text', text: null, ...FORMAT },
    ]
    expect(back(odd as ReasoningDetail[])).toEqual([])
  })
})
