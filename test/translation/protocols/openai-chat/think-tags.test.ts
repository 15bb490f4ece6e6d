import { describe, expect, test } from 'bun:test'
import { ThinkTags } from '../../../../src/translation/protocols/openai-chat/reader.ts'

/** Returns the thinking and the answer of a text that comes in these pieces. */
function parted(pieces: string[]) {
  const tags = new ThinkTags()
  const all = [...pieces.flatMap(piece => tags.read(piece)), ...tags.end()]
  const join = (thought: boolean) =>
    all.flatMap(piece => (piece.isThinking === thought ? piece.text : [])).join('')
  return { thought: join(true), said: join(false) }
}

const TEXT =
  '\n<think>\nIs 1 < 2? </thin> yes.\n</think>\n\nYes: 1 < 2, <think> is only a word here.'

describe('think tags', () => {
  test('trap 83: thinking and answer are separated wherever the text is cut', () => {
    const whole = parted([TEXT])
    expect(whole).toEqual({
      thought: 'Is 1 < 2? </thin> yes.\n',
      said: 'Yes: 1 < 2, <think> is only a word here.',
    })
    for (let a = 0; a <= TEXT.length; a++)
      for (let b = a; b <= TEXT.length; b++)
        expect(parted([TEXT.slice(0, a), TEXT.slice(a, b), TEXT.slice(b)])).toEqual(whole)
    expect(parted([...TEXT])).toEqual(whole)
  })

  test('text without tags is returned as it comes, and what looks like a tag is not lost', () => {
    expect(parted(['Hello ', '<b>', ' </think>'])).toEqual({
      thought: '',
      said: 'Hello <b> </think>',
    })
    expect(parted(['<thi'])).toEqual({ thought: '', said: '<thi' })
    expect(parted([' '])).toEqual({ thought: '', said: ' ' })
    expect(parted(['<think>never', ' ended </th'])).toEqual({
      thought: 'never ended </th',
      said: '',
    })
  })

  test('no more than the length of a tag is held back', () => {
    const tags = new ThinkTags()
    tags.read('<think>')
    const given = tags.read('x'.repeat(1000))
    expect(given).toEqual([{ isThinking: true, text: 'x'.repeat(1000) }])
  })
})
