import { describe, expect, test } from 'bun:test'
import type { ReasoningDetail } from '../../../../src/language/reasoning.ts'
import {
  readEntryText,
  renderRedactedData,
  renderSignature,
  toReasoningBlock,
  toRedactedBlock,
} from '../../../../src/translation/dialects/messages/thinking.ts'

describe('reasoning of another provider', () => {
  const entries: ReasoningDetail[] = [
    {
      type: 'reasoning.summary',
      summary: 'So',
      id: 'rs_1',
      format: 'openai-responses-v1',
      index: 0,
    },
    {
      type: 'reasoning.text',
      text: 'So',
      signature: 'AAEC/+==',
      format: 'google-gemini-v1',
      index: 3,
    },
  ]

  test('trap 97: comes back unchanged, in a signature that only the gateway opens', () => {
    for (const entry of entries) {
      const signature = renderSignature(entry)
      expect(signature).toMatch(/^sealed\.[A-Za-z0-9_-]+$/)
      expect(toReasoningBlock(readEntryText(entry), signature, 7)).toEqual({
        type: 'reasoning',
        text: 'So',
        details: [entry],
      })
    }
  })

  test('trap 97: comes back unchanged even without text', () => {
    const entry: ReasoningDetail = {
      type: 'reasoning.encrypted',
      data: 'AAEC',
      id: 'rs_1',
      format: 'openai-responses-v1',
      index: 1,
    }
    expect(toRedactedBlock(renderRedactedData(entry), 7)).toEqual({
      type: 'reasoning',
      text: null,
      details: [entry],
    })
  })

  test('is not signed if it is text alone', () => {
    expect(
      renderSignature({ type: 'reasoning.text', text: 'So', format: 'unknown', index: 0 }),
    ).toBe('')
    expect(renderSignature({})).toBe('')
  })

  test('is not opened if nothing was sealed', () => {
    const signature = 'sealed.AAAA'
    const own = {
      type: 'reasoning.text',
      text: 'a',
      signature,
      format: 'anthropic-claude-v1',
      index: 0,
    }
    expect(toReasoningBlock('a', signature, 0)).toMatchObject({ details: [own] })
    expect(toRedactedBlock('sealed.', 0)).toMatchObject({
      details: [{ type: 'reasoning.encrypted', data: 'sealed.' }],
    })
  })
})

test('reasoning of Claude keeps its own signature and data, byte for byte', () => {
  const format = 'anthropic-claude-v1'
  expect(
    renderSignature({ type: 'reasoning.text', text: 'a', signature: 'a/b+==', id: 'x', format }),
  ).toBe('a/b+==')
  expect(renderSignature({ type: 'reasoning.text', text: 'a', format })).toBe('')
  expect(renderRedactedData({ type: 'reasoning.encrypted', data: 'a/b+==', format })).toBe('a/b+==')
})
