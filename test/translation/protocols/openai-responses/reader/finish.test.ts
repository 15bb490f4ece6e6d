import { describe, expect, test } from 'bun:test'
import { readFinish } from '../../../../../src/translation/protocols/openai-responses/reader.ts'

const plain = { calls: false, refused: false }
const cut = (reason: unknown) => ({ status: 'incomplete', incomplete_details: { reason } })

describe('trap 69: readFinish', () => {
  test.each([
    [{ status: 'completed' }, plain, 'stop', 'completed'],
    [
      { status: 'completed', incomplete_details: null },
      { calls: true, refused: false },
      'tool_calls',
      'completed',
    ],
    [{ status: 'completed' }, { calls: false, refused: true }, 'content_filter', 'completed'],
    [cut('max_output_tokens'), plain, 'length', 'max_output_tokens'],
    [cut('max_output_tokens'), { calls: true, refused: false }, 'length', 'max_output_tokens'],
    [cut('content_filter'), plain, 'content_filter', 'content_filter'],
    [{ status: 'incomplete' }, plain, 'length', 'incomplete'],
    [{}, plain, 'stop', null],
    [{ status: 7, incomplete_details: 'x' }, plain, 'stop', null],
  ] as const)('%j of %j is %p', (response, held, reason, native) => {
    expect(readFinish(response, held)).toEqual({ reason, native })
  })
  test.each(['steered', 'constructor'])('a reason that is not known, %s, is an error', word => {
    for (const calls of [false, true])
      expect(readFinish(cut(word), { calls, refused: false })).toEqual({
        reason: 'error',
        native: word,
        isUnknown: true,
      })
  })
})
