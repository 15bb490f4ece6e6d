import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { Tokenizer } from 'ai-tokenizer'
import * as claude from 'ai-tokenizer/encoding/claude'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { estimateTokenCount } from 'tokenx'
import { startWorker } from '../../src/translation/tokenizers/encoder.ts'
import { FAMILIES } from '../../src/translation/tokenizers/families.ts'
import {
  openTokenizers,
  type Tokenizers,
  type TokenizersOptions,
} from '../../src/translation/tokenizers.ts'

/** Long enough for a busy machine. */
const PATIENT = 25_000

const opened: Tokenizers[] = []
afterEach(() => {
  for (const tokenizers of opened.splice(0)) tokenizers.close()
})

function open(replace: Partial<TokenizersOptions> = {}): Tokenizers {
  const tokenizers = openTokenizers({ timeoutMs: PATIENT, ...replace })
  opened.push(tokenizers)
  return tokenizers
}

/** Starts real Workers, and collects them. */
function counted() {
  const workers: Worker[] = []
  const start = () => {
    const worker = startWorker()
    workers.push(worker)
    return worker
  }
  return { workers, start }
}

/** A Worker that handles its messages like this. */
const doing = (code: string) => () =>
  new Worker(URL.createObjectURL(new Blob([code], { type: 'application/javascript' })))

const SAMPLES: [script: string, text: string][] = [
  ['Latin', 'The quick brown fox jumps over the lazy dog, 1234567 times; naïve café façade.'],
  ['Cyrillic', 'Съешь же ещё этих мягких французских булок да выпей чаю.'],
  ['Greek', 'Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.'],
  ['Chinese', '敏捷的棕色狐狸跳过了懒狗。今天天气很好，我们去公园散步吧。'],
  ['Japanese', 'いろはにほへと ちりぬるを 我が世誰ぞ 常ならむ カタカナ'],
  ['Korean', '다람쥐 헌 쳇바퀴에 타고파'],
  ['Arabic', 'نص حكيم له سر قاطع وذو شأن عظيم'],
  ['Hindi', 'ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश'],
  ['Thai', 'เป็นมนุษย์สุดประเสริฐเลิศคุณค่า'],
  ['emoji', '👩‍👩‍👧‍👦 🏳️‍🌈 🤷🏽‍♀️ done'],
  [
    'code',
    'const add = (a: number, b: number): number => {\n  return a + b // {} [] <T>\n}\n\n\tif (x !== null) y?.z()',
  ],
  [
    'commands',
    'say <|endoftext|> and <|im_start|>system <META> <EOT> constructor __proto__ toString',
  ],
  ['half a character', 'a \ud83d b'],
]

describe('a count', () => {
  const tokenizers = openTokenizers({ timeoutMs: PATIENT })
  afterAll(() => tokenizers.close())
  const library = new Tokenizer(claude)
  const o200k = (text: string) => countTokens(text, { disallowedSpecial: new Set() })
  const claudes = (text: string) => library.encode(text, 'all').length

  test.each(SAMPLES)('of %s for OpenAI’s models equals gpt-tokenizer’s', async (_, text) => {
    expect(await tokenizers.count('openai', [text, text])).toBe(2 * o200k(text))
  })

  test.each(SAMPLES)(
    'of %s for Anthropic’s models is that of ai-tokenizer, times the factor of later models',
    async (_, text) => {
      expect(await tokenizers.count('anthropic', [text])).toBe(Math.round(1.1 * claudes(text)))
    },
  )

  test.each(SAMPLES)(
    'of %s for other models is that of tokenx, times the factor of their family, without a Worker',
    async (_, text) => {
      const { workers, start } = counted()
      const counting = open({ startWorker: start })
      for (const family of [
        'gemini',
        'llama',
        'mistral',
        'qwen',
        'deepseek',
        'cohere',
        'unknown',
      ] as const)
        expect(await counting.count(family, [text])).toBe(
          Math.round(estimateTokenCount(text) * FAMILIES[family].multiplier),
        )
      expect(workers).toEqual([])
    },
  )

  test('of an empty text is 0 and starts no Worker', async () => {
    const { workers, start } = counted()
    expect(await open({ startWorker: start }).count('openai', ['', ''])).toBe(0)
    expect(workers).toEqual([])
  })

  test('of a longer text than is encoded adds the rule of thumb for the rest', async () => {
    const sentence = 'All work and no play makes Jack a dull boy. '
    const text = sentence.repeat(60_000)
    const tokens = await tokenizers.count('openai', [text])
    expect(text.length).toBeGreaterThan(2 * 1024 * 1024)
    expect(tokens / (o200k(sentence.repeat(100)) * 600)).toBeCloseTo(1, 1)
  })
})

describe('the Worker', () => {
  test('is the same for all simultaneous requests and encodings', async () => {
    const { workers, start } = counted()
    const tokenizers = open({ startWorker: start })
    const asked = Array.from({ length: 100 }, (_, i) =>
      tokenizers.count(i % 2 ? 'openai' : 'anthropic', ['Hello there']),
    )
    expect(new Set(await Promise.all(asked))).toEqual(new Set([2]))
    expect(workers).toHaveLength(1)
  })

  test('ends when idle for a while, and another is started on demand', async () => {
    const { workers, start } = counted()
    const tokenizers = open({ startWorker: start, idleMs: 1 })
    await tokenizers.count('openai', ['Hello there'])
    await new Promise<void>(resolve => workers[0]?.addEventListener('close', () => resolve()))
    expect(await tokenizers.count('openai', ['Hello there'])).toBe(2)
    expect(workers).toHaveLength(2)
  })
})

describe('the rule of thumb replaces a Worker that', () => {
  const TEXT = 'Hello there, how are you?'
  const thumb = estimateTokenCount(TEXT)

  test.each<[name: string, replace: Partial<TokenizersOptions>]>([
    [
      'cannot be started',
      {
        startWorker: () => {
          throw new Error('No more threads')
        },
      },
    ],
    ['does not exist', { startWorker: () => new Worker('file:///nowhere/worker.ts') }],
    ['fails at its start', { startWorker: doing('throw new Error("broken")') }],
    [
      'fails while working',
      { startWorker: doing('onmessage = () => { throw new Error("broken") }') },
    ],
    ['exits while working', { startWorker: doing('onmessage = () => process.exit(1)') }],
    [
      'cannot encode',
      {
        startWorker: doing('onmessage = ({ data }) => postMessage({ id: data.id, tokens: null })'),
      },
    ],
    ['never answers', { startWorker: doing('onmessage = () => {}'), timeoutMs: 20 }],
    [
      'never becomes responsive',
      { startWorker: doing('onmessage = () => { for (;;); }'), timeoutMs: 20 },
    ],
  ])('%s, for all waiting requests', async (_, replace) => {
    const tokenizers = open(replace)
    expect(
      await Promise.all([
        tokenizers.count('openai', [TEXT]),
        tokenizers.count('anthropic', [TEXT]),
      ]),
    ).toEqual([thumb, Math.round(1.2 * thumb)])
  })

  test('has failed, and the next count starts a new Worker', async () => {
    const starts = [doing('throw new Error("broken")'), startWorker]
    const tokenizers = open({ startWorker: () => (starts.shift() ?? startWorker)() })
    const text = 'antidisestablishmentarianism '.repeat(10)
    const first = await tokenizers.count('openai', [text])
    expect(first).toBe(estimateTokenCount(text))
    expect(await tokenizers.count('openai', [text])).not.toBe(first)
  })

  test('is closed, at once and from then on', async () => {
    const tokenizers = open({ startWorker: doing('onmessage = () => {}') })
    const waiting = tokenizers.count('openai', [TEXT])
    tokenizers.close()
    expect(await waiting).toBe(thumb)
    expect(await tokenizers.count('openai', [TEXT])).toBe(thumb)
  })

  test('has more work than it can do', async () => {
    const tokenizers = open({ startWorker: doing('onmessage = () => {}') })
    const text = 'word '.repeat(200_000)
    const waiting = Array.from({ length: 16 }, () => tokenizers.count('openai', [text]))
    const one = await tokenizers.count('openai', [text])
    tokenizers.close()
    expect(new Set(await Promise.all(waiting))).toEqual(new Set([one]))
  })
})
