import { describe, expect, test } from 'bun:test'
import { detectTask } from '../../../../src/extensions/plugins/auto-router.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import { buildTextCall } from '../../../support/call.ts'

const said = (text: string, system?: string): Partial<TextCall> => ({
  messages: [
    ...(system === undefined
      ? []
      : [{ role: 'system' as const, blocks: [{ type: 'text' as const, text: system }] }]),
    { role: 'user', blocks: [{ type: 'text', text }] },
  ],
})
const task = (call: Partial<TextCall>, tokens = 10) => detectTask(buildTextCall(call), tokens)

describe('the task is detected by the words of the last user message', () => {
  test.each([
    ['Hi there! How was your day?', 'chat'],
    ['Hallo, wie geht es dir?', 'chat'],
    ['What is the postal code of Berlin?', 'chat'],
    ['What is the capital of France?', 'chat'],
    ['Write a Python function that reverses a list', 'code'],
    ['Schreibe eine Funktion, die einen Fehler im Skript findet', 'code'],
    ['Why does this throw?\n```\nfoo()\n```', 'code'],
    ['Translate the following Python code to Java, please', 'code'],
    ['Fix the bug in this class', 'code'],
    ['Write a quicksort in Rust', 'code'],
    ['What sort of test is this?', 'chat'],
    ['Löse die Gleichung 3x + 4 = 10', 'math'],
    ['Solve for x and prove the result', 'math'],
    ['What is the integral of sin(x)?', 'math'],
    ['Wie hoch ist die Wahrscheinlichkeit, zwei Sechser zu würfeln?', 'math'],
    ['Translate this story into French', 'translation'],
    ['Übersetze das ins Englische: Guten Morgen', 'translation'],
    ['Traduis cette phrase', 'translation'],
    ['把这个翻译成英文', 'translation'],
    ['Summarize this article about Python', 'summarization'],
    ['Fasse den folgenden Text zusammen', 'summarization'],
    ['Bitte eine kurze Zusammenfassung', 'summarization'],
    ['tl;dr please', 'summarization'],
    ['Write a haiku about autumn', 'creative-writing'],
    ['Schreib mir ein Gedicht über den Herbst', 'creative-writing'],
    ['Erzähle eine Geschichte von einem Drachen', 'creative-writing'],
    ['A riddle: what walks on four legs in the morning?', 'reasoning'],
    ['Denke Schritt für Schritt nach', 'reasoning'],
    ['Vergleiche beide Angebote und begründe deine Wahl', 'reasoning'],
  ])('%p: %s', (text, expected) => {
    expect<string>(task(said(text))).toBe(expected)
  })

  test('and with half the weight by those of the instructions', () => {
    expect(task(said('Hi', 'You translate texts.'))).toBe('chat')
    expect(task(said('Hi', 'You are a translator. Translate into English.'))).toBe('translation')
    expect(task(said('Hi', 'You are a JavaScript and SQL expert.'))).toBe('code')
    expect(task(said('Write a haiku', 'You are a JavaScript and SQL expert.'))).toBe(
      'creative-writing',
    )
  })

  test('at its beginning and its end only', () => {
    const filling = 'lorem ipsum '.repeat(10_000)
    expect(task(said(`Summarize: ${filling}`))).toBe('summarization')
    expect(task(said(`${filling} Summarize that.`))).toBe('summarization')
    expect(task(said(`${filling} summarize that python sql ${filling}`))).toBe('chat')
  })

  test('and not by earlier messages', () => {
    const messages = [
      ...(said('Write a haiku').messages ?? []),
      { role: 'assistant' as const, blocks: [] },
      ...(said('Thanks!').messages ?? []),
    ]
    expect(task({ messages })).toBe('chat')
  })
})

describe('the structure of a call overrules its words', () => {
  const code = said('Write a Python function')
  const tool = { type: 'function', name: 'f' } as const
  const picture = { type: 'image', url: 'data:image/png;base64,AA==' } as const
  test.each<[string, Partial<TextCall>, number, string]>([
    [
      'a picture',
      {
        ...code,
        messages: [
          { role: 'user', blocks: [picture, { type: 'text', text: 'Write a Python function' }] },
        ],
      },
      10,
      'vision',
    ],
    ['tools', { ...code, tools: [tool] }, 10, 'agentic'],
    [
      'tools that may not be called',
      { ...code, tools: [tool], params: { tool_choice: 'none' } },
      10,
      'code',
    ],
    [
      'a form',
      { ...code, params: { response_format: { type: 'json_schema', json_schema: { name: 'x' } } } },
      10,
      'extraction',
    ],
    ['a form that is text', { ...code, params: { response_format: { type: 'text' } } }, 10, 'code'],
    ['a long prompt', code, 64_000, 'long-context'],
    [
      'a wish to reason',
      { ...said('Hi'), params: { reasoning: { effort: 'high' } } },
      10,
      'reasoning',
    ],
    ['a wish not to', { ...said('Hi'), params: { reasoning: { effort: 'none' } } }, 10, 'chat'],
    ['nothing', { messages: [] }, 0, 'chat'],
  ])('%s', (_, call, tokens, expected) => {
    expect<string>(task(call, tokens)).toBe(expected)
  })
})

test('the text between the ends is never read, however long it is', () => {
  let read = 0
  const text = new Proxy(new String('a'.repeat(1_000_000)), {
    get(target, name) {
      const value = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return (...args: number[]) => {
        const found = value.apply(target, args)
        read += String(found).length
        return found
      }
    },
  })
  expect(
    task({
      messages: [{ role: 'user', blocks: [{ type: 'text', text: text as unknown as string }] }],
    }),
  ).toBe('chat')
  expect(read).toBeWithin(1, 2_049)
})
