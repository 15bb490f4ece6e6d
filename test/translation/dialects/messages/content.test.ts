import { describe, expect, test } from 'bun:test'
import type { TextPart } from '../../../../src/language/part.ts'
import type { ReasoningDetail } from '../../../../src/language/reasoning.ts'
import type { BlockEvent } from '../../../../src/translation/dialects/messages/block-queue.ts'
import { MessageContent } from '../../../../src/translation/dialects/messages/content.ts'
import { createSeededIntegers, SEED } from '../../../support/random.ts'

const choice = 0
const text = (said: string, block?: number): TextPart => ({
  type: 'text-delta',
  choice,
  text: said,
  ...(block === undefined ? {} : { block }),
})
const start = (index: number, name = `tool_${index}`): TextPart => ({
  type: 'tool-call-start',
  choice,
  index,
  id: `call_${index}`,
  name,
})
const input = (index: number, piece: string): TextPart => ({
  type: 'tool-call-delta',
  choice,
  index,
  input: piece,
})
const thought = (said: string, ...details: ReasoningDetail[]): TextPart => ({
  type: 'reasoning-delta',
  choice,
  text: said,
  details,
})
const claude = (index: number, more: object): ReasoningDetail => ({
  type: 'reasoning.text',
  format: 'anthropic-claude-v1',
  index,
  ...more,
})

/** Renders events as short lines: `0 + tool_use call_0`, `0 {"a":`, `0 .`, in their batches. */
function stepsOf(parts: TextPart[], hidesThinking = false): string[] {
  const content = new MessageContent(hidesThinking)
  return [...parts.flatMap(part => content.read(part)), ...content.end()].map(shown)
}

function shown(step: BlockEvent): string {
  if (step.type === 'content_block_stop') return `${step.index} .`
  if (step.type === 'content_block_delta')
    return `${step.index} ${Object.values(step.delta)
      .slice(1)
      .map(value => (typeof value === 'string' ? value : JSON.stringify(value)))}`
  const { type, id, name } = step.content_block
  return [step.index, '+', type, id, name].filter(word => word !== undefined).join(' ')
}

describe('blocks', () => {
  test('of consecutive pieces of one kind are merged, and are numbered from zero', () => {
    expect(stepsOf([text('Hel'), text(''), text('lo'), thought('Hm'), text('!')])).toEqual([
      '0 + text',
      '0 Hel',
      '0 lo',
      '0 .',
      '1 + thinking',
      '1 Hm',
      '1 .',
      '2 + text',
      '2 !',
      '2 .',
    ])
  })

  test('are divided where the provider divided them', () => {
    const citation = { type: 'page_location', cited_text: 'b' }
    const cited: TextPart = { type: 'annotation', choice, annotation: null, citation, block: 2 }
    expect(stepsOf([text('a', 1), text('b', 2), cited, text('c', 3)])).toEqual([
      '0 + text',
      '0 a',
      '0 .',
      '1 + text',
      '1 b',
      `1 ${JSON.stringify(citation)}`,
      '1 .',
      '2 + text',
      '2 c',
      '2 .',
    ])
  })

  test('of other choices are left out', () => {
    expect(stepsOf([{ type: 'text-delta', choice: 1, text: 'x' }])).toEqual([])
  })

  test('are never open two at a time, whatever the order of the parts', () => {
    for (let i = 0; i < 300; i++) expectOneAtATime(shuffled(SEED + i))
  })
})

/** Returns parts in an order that the seed determines. Every call begins before its input. */
function shuffled(seed: number): TextPart[] {
  const random = createSeededIntegers(seed)
  const pieces = ['{"a":', '"}{"', ',"b":[', '1', ']', '}']
  const begun = new Map<number, number>()
  return Array.from({ length: 60 }, () => {
    const at = random(4)
    const next = begun.get(at)
    if (random(4) === 0)
      return random(2) === 0 ? text('x') : thought('y', claude(random(2), { text: 'y' }))
    begun.set(at, (next ?? -1) + 1)
    return next === undefined ? start(at) : input(at, pieces[next] ?? ' ')
  })
}

function expectOneAtATime(parts: TextPart[]): void {
  const content = new MessageContent(false)
  let open: number | null = null
  let count = 0
  const inputs: string[] = []
  for (const step of [...parts.flatMap(part => content.read(part)), ...content.end()]) {
    if (step.type === 'content_block_start') {
      expect([open, step.index]).toEqual([null, count])
      open = count++
      inputs.push('')
    } else {
      expect(step.index).toBe(open ?? -1)
      if (step.type === 'content_block_stop') open = null
      else if (step.delta.type === 'input_json_delta') inputs[step.index] += step.delta.partial_json
    }
  }
  expect(open).toBeNull()
  const told = parts
    .flatMap(part => (part.type === 'tool-call-delta' ? part.input : []))
    .join('')
    .replaceAll(' ', '')
  expect([...inputs.join('').replaceAll(' ', '')].sort().join('')).toBe([...told].sort().join(''))
}

describe('tools', () => {
  test('trap 58, 59: a tool call is a separate block after the text, with its name first', () => {
    expect(stepsOf([text('Look'), start(0), input(0, '{"a"'), input(0, ':1}')])).toEqual([
      '0 + text',
      '0 Look',
      '0 .',
      '1 + tool_use call_0 tool_0',
      '1 {"a"',
      '1 :1}',
      '1 .',
    ])
  })

  test('trap 60: a name and whole arguments that come at once are both sent', () => {
    const content = new MessageContent(false)
    expect([start(0), input(0, '{"a":1}')].flatMap(part => content.read(part)).map(shown)).toEqual([
      '0 + tool_use call_0 tool_0',
      '0 {"a":1}',
      '0 .',
    ])
    expect(content.end()).toEqual([])
  })

  test('trap 61: content between the arguments of a call waits until they are complete', () => {
    const content = new MessageContent(false)
    const steps = (part: TextPart) => content.read(part).map(shown)
    expect(steps(start(0))).toEqual(['0 + tool_use call_0 tool_0'])
    expect(steps(input(0, '{"a":"}'))).toEqual(['0 {"a":"}'])
    expect(steps(start(1))).toEqual([])
    expect(steps(input(1, '{"b"'))).toEqual([])
    expect(steps(text('so'))).toEqual([])
    expect(steps(input(0, '"}'))).toEqual(['0 "}', '0 .', '1 + tool_use call_1 tool_1', '1 {"b"'])
    expect(steps(input(1, ':2}'))).toEqual(['1 :2}', '1 .', '2 + text', '2 so'])
    expect(content.end().map(shown)).toEqual(['2 .'])
  })

  test('trap 61: two interleaved calls are sent one after the other', () => {
    expect(
      stepsOf([
        start(0),
        start(1),
        input(1, '{"b":'),
        input(0, '{"a":'),
        input(1, '2}'),
        input(0, '1}'),
      ]),
    ).toEqual([
      '0 + tool_use call_0 tool_0',
      '0 {"a":',
      '0 1}',
      '0 .',
      '1 + tool_use call_1 tool_1',
      '1 {"b":',
      '1 2}',
      '1 .',
    ])
  })

  test('trap 23: a call without arguments is kept, and truncated arguments stay truncated', () => {
    expect(stepsOf([start(0), start(1), input(1, '{"a":')])).toEqual([
      '0 + tool_use call_0 tool_0',
      '0 .',
      '1 + tool_use call_1 tool_1',
      '1 {"a":',
      '1 .',
    ])
  })

  test('trap 24: arguments that are not an object are wrapped in one', () => {
    expect(
      stepsOf([start(0), input(0, ' ["a'), input(0, '"]'), start(1), input(1, '"x"')]),
    ).toEqual([
      '0 + tool_use call_0 tool_0',
      '0 {"INVALID_JSON":" [\\"a\\"]"}',
      '0 .',
      '1 + tool_use call_1 tool_1',
      '1 {"INVALID_JSON":"\\"x\\""}',
      '1 .',
    ])
  })

  test('trap 25: text after complete arguments and input without a call are dropped', () => {
    expect(stepsOf([start(0), input(0, '{}{"city":1}'), input(0, 'x'), input(7, '{}')])).toEqual([
      '0 + tool_use call_0 tool_0',
      '0 {}',
      '0 .',
    ])
  })

  test('a call has a caller and the extra fields of its provider', () => {
    const blockOf = (part: TextPart) => {
      const [step] = new MessageContent(false).read(part)
      return step?.type === 'content_block_start' ? step.content_block : undefined
    }
    const caller = { type: 'code_execution_20260120', tool_id: 'srvtoolu_1' }
    expect(blockOf(start(0, 'a'))).toEqual({
      type: 'tool_use',
      id: 'call_0',
      name: 'a',
      input: {},
      caller: { type: 'direct' },
    })
    const called: TextPart = {
      type: 'tool-call-start',
      choice,
      index: 0,
      id: 'call_0',
      name: 'a',
      extra: { caller },
    }
    expect(blockOf(called)).toEqual({
      type: 'tool_use',
      id: 'call_0',
      name: 'a',
      input: {},
      caller,
    })
  })
})

describe('thinking', () => {
  test('trap 66: text and signature are in a separate block, the signature once and last', () => {
    expect(
      stepsOf([
        thought('a', claude(0, { text: 'a' })),
        thought('', claude(0, { text: '', signature: 'sig' })),
        text('b'),
      ]),
    ).toEqual(['0 + thinking', '0 a', '0 sig', '0 .', '1 + text', '1 b', '1 .'])
  })

  test('blocks with separate signatures stay separate', () => {
    expect(
      stepsOf([
        thought('a', claude(0, { text: 'a', signature: 's0' })),
        thought('b', claude(0, { text: 'b', signature: 's1' })),
        thought('c', claude(2, { text: 'c' })),
      ]),
    ).toEqual([
      '0 + thinking',
      '0 a',
      '0 s0',
      '0 .',
      '1 + thinking',
      '1 b',
      '1 s1',
      '1 .',
      '2 + thinking',
      '2 c',
      '2 .',
    ])
  })

  test('trap 67: redacted thinking is sent whole', () => {
    const content = new MessageContent(false)
    expect(
      content.read(
        thought('', {
          type: 'reasoning.encrypted',
          data: 'AAEC',
          format: 'anthropic-claude-v1',
          index: 0,
        }),
      ),
    ).toEqual([
      {
        type: 'content_block_start',
        index: 0,
        content_block: { type: 'redacted_thinking', data: 'AAEC' },
      },
    ])
    expect(content.end().map(shown)).toEqual(['0 .'])
  })

  test('trap 94: a signature without text is still a block', () => {
    expect(stepsOf([thought('', claude(0, { text: '', signature: 'sig' }))])).toEqual([
      '0 + thinking',
      '0 sig',
      '0 .',
    ])
  })

  test('that the client excluded keeps its signature, and is left out without one', () => {
    const parts = [
      thought('a', claude(0, { text: 'a', signature: 'sig' })),
      thought('b'),
      text('c'),
    ]
    expect(stepsOf(parts, true)).toEqual(['0 + thinking', '0 sig', '0 .', '1 + text', '1 c', '1 .'])
  })

  test('as text alone is not signed, and text that entries repeat is sent once', () => {
    expect(stepsOf([thought('a'), thought('b')])).toEqual(['0 + thinking', '0 a', '0 b', '0 .'])
    expect(
      stepsOf([
        thought('a', { type: 'reasoning.summary', summary: 'a', format: 'unknown', index: 0 }),
      ]),
    ).toEqual(['0 + thinking', '0 a', '0 .'])
  })
})

describe('other parts', () => {
  const native = (value: unknown): TextPart => ({
    type: 'other',
    choice,
    dialect: 'messages',
    value,
  })

  test('a tool that the provider runs streams its input, and its result is whole', () => {
    const result = { type: 'web_search_tool_result', tool_use_id: 's', content: [] }
    expect(
      stepsOf([
        native({ type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'x' } }),
        native(result),
      ]),
    ).toEqual([
      '0 + server_tool_use s web_search',
      '0 {"query":"x"}',
      '0 .',
      '1 + web_search_tool_result',
      '1 .',
    ])
  })

  test('of another dialect or of unknown shape are left out', () => {
    expect(
      stepsOf([
        { type: 'other', choice, dialect: 'responses', value: { type: 'x' } },
        native(null),
        native({ type: 5 }),
        native([]),
      ]),
    ).toEqual([])
  })

  test('a source in OpenAI’s form is sent without proof', () => {
    const annotation = {
      type: 'url_citation',
      url_citation: { url: 'https://a.example', title: 'A', start_index: 0 },
    }
    const shownSource = {
      type: 'web_search_result_location',
      cited_text: '',
      encrypted_index: '',
      title: 'A',
      url: 'https://a.example',
    }
    expect(
      stepsOf([
        text('a'),
        { type: 'annotation', choice, annotation },
        { type: 'annotation', choice, annotation: 5 },
      ]),
    ).toEqual(['0 + text', '0 a', `0 ${JSON.stringify(shownSource)}`, '0 .'])
  })

  test('pictures and sounds become text, and so does a refusal', () => {
    const content = new MessageContent(false)
    const parts: TextPart[] = [
      { type: 'image', choice, url: 'data:image/png;base64,AAAA' },
      { type: 'audio-delta', choice, audio: { data: 'AAAA', transcript: ' Hi' } },
      { type: 'refusal-delta', choice, text: ' No' },
    ]
    expect(parts.flatMap(part => content.read(part)).map(shown)).toEqual([
      '0 + text',
      '0 ![image](data:image/png;base64,AAAA)',
      '0  Hi',
      '0  No',
    ])
    expect(content.refused).toBe(true)
  })

  test('a hundred thousand of them behind an unfinished call need little time and stack', () => {
    const redacted = thought('', {
      type: 'reasoning.encrypted',
      data: 'A',
      format: 'anthropic-claude-v1',
      index: 0,
    })
    expect(
      stepsOf([start(0), input(0, '{'), ...Array.from({ length: 100_000 }, () => redacted)]),
    ).toHaveLength(3 + 200_000)
  })
})

test('an entry with an invalid index is merged with those without an index', () => {
  const odd = (said: string) =>
    thought(said, { ...claude(0, { text: said }), index: { toString: 1 } })
  expect(stepsOf([odd('Let '), odd('me')])).toEqual(['0 + thinking', '0 Let ', '0 me', '0 .'])
})
