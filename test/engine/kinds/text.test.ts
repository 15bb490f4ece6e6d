import { describe, expect, test } from 'bun:test'
import { text } from '../../../src/engine/kinds/text.ts'
import type { TextCall } from '../../../src/language/call.ts'
import type { Block } from '../../../src/language/message.ts'
import type { TextPart } from '../../../src/language/part.ts'
import { countOutputTokens } from '../../../src/language/usage.ts'
import { buildTextCall } from '../../support/call.ts'

/** Counts characters, and remembers the texts that it was given. */
function characters() {
  const asked: string[][] = []
  const count = async (texts: string[]) => {
    asked.push(texts)
    return texts.join('').length
  }
  return { asked, count }
}

const saying = (...blocks: Block[]): TextCall =>
  buildTextCall({ messages: [{ role: 'user', blocks }] })
const said = (content: string, choice = 0): TextPart => ({
  type: 'text-delta',
  choice,
  text: content,
})

/** Estimates a call that was answered with these parts; a character is a token. */
async function estimate(call: TextCall, ...parts: TextPart[]) {
  const meter = text.metering.startMeter(call)
  meter.read(parts)
  const { asked, count } = characters()
  return { usage: await meter.estimate(count), delivered: meter.delivered, asked }
}

/** Three tokens for the message, three for the beginning of the answer. */
const FRAME = 6

describe('the estimate of an answer', () => {
  test('joins pieces, each choice by itself', async () => {
    const { usage, asked } = await estimate(
      buildTextCall(),
      said('Hel'),
      said('Good', 1),
      said('lo'),
      said('bye', 1),
    )
    expect(asked).toContainEqual(['Hello', 'Goodbye'])
    expect(usage.output).toEqual({ text: 12, reasoning: 0, audio: 0, image: 0 })
  })

  test('counts reasoning separately, and tool calls and refusals with the text', async () => {
    const { usage } = await estimate(
      buildTextCall(),
      { type: 'reasoning-delta', choice: 0, text: 'Hmm', details: [] },
      { type: 'tool-call-start', choice: 0, index: 0, id: 'call_1', name: 'add' },
      { type: 'tool-call-delta', choice: 0, index: 0, input: '{}' },
      { type: 'refusal-delta', choice: 0, text: 'No' },
    )
    expect(usage.output).toEqual({ text: 7, reasoning: 3, audio: 0, image: 0 })
  })

  test('keeps a megabyte of it, and counts the rest by the rule of thumb', async () => {
    const piece = 'word '.repeat(1_000)
    const { usage, asked } = await estimate(
      buildTextCall(),
      ...Array.from({ length: 400 }, () => said(piece)),
    )
    const kept = asked.flat().find(one => one.startsWith('word'))?.length ?? 0
    expect(kept).toBeGreaterThan(1_000_000)
    expect(kept).toBeLessThanOrEqual(1024 * 1024)
    expect(countOutputTokens(usage) - kept).toBe((400 * piece.length - kept) / 'word '.length)
  })

  test('counts images, and audio by its seconds and its transcript', async () => {
    const second = 'A'.repeat(64_000)
    const { usage, delivered } = await estimate(
      buildTextCall({ params: { modalities: ['text', 'audio'], audio: { format: 'pcm16' } } }),
      { type: 'image', choice: 0, url: 'data:image/png;base64,AA==' },
      { type: 'audio-delta', choice: 0, audio: { data: second, transcript: 'Hello' } },
      { type: 'audio-delta', choice: 0, audio: { data: second } },
    )
    expect([delivered, usage.output]).toEqual([
      true,
      { text: 5, reasoning: 0, audio: 50, image: 1_290 },
    ])
  })

  test('takes compressed audio for more seconds', async () => {
    const sound = { type: 'audio-delta', choice: 0, audio: { data: 'A'.repeat(64_000) } } as const
    expect(
      (await estimate(buildTextCall({ params: { audio: { format: 'mp3' } } }), sound)).usage.output
        .audio,
    ).toBe(75)
  })

  const PICTURE: TextPart = { type: 'image', choice: 0, url: 'data:image/png;base64,AA==' }
  test.each<[string, TextPart]>([
    ['a word', said('a')],
    ['a thought', { type: 'reasoning-delta', choice: 0, text: 'a', details: [] }],
    ['a picture', PICTURE],
    ['a sound', { type: 'audio-delta', choice: 0, audio: { data: 'AA==' } }],
    ['a source', { type: 'annotation' } as TextPart],
  ])('is of an answer that delivers something: %s alone', async (_, part) => {
    expect((await estimate(saying(), part)).delivered).toBe(true)
  })

  test('of nothing delivered is nothing', async () => {
    const { usage, delivered } = await estimate(buildTextCall(), said(''))
    expect([delivered, countOutputTokens(usage)]).toEqual([false, 0])
  })
})

describe('the estimate of a prompt', () => {
  test('counts messages, tools, and what frames them', async () => {
    const tools: TextCall['tools'] = [{ type: 'function', name: 'add' }]
    const messages: TextCall['messages'] = [
      { role: 'user', blocks: [{ type: 'text', text: 'Hello' }] },
      {
        role: 'assistant',
        blocks: [{ type: 'tool-call', id: 'call_1', name: 'add', input: '{}' }],
      },
    ]
    const { usage } = await estimate(buildTextCall({ messages, tools }))
    expect(usage.input.text).toBe(
      'Hello'.length + 'add {}'.length + JSON.stringify(tools).length + 9,
    )
  })

  test.each<[name: string, block: Block, tokens: number]>([
    ['an image', { type: 'image', url: 'https://example.com/a.png' }, 765],
    [
      'an image in low detail',
      { type: 'image', url: 'https://example.com/a.png', detail: 'low' },
      85,
    ],
    ['a file by URL', { type: 'file', file: { file_id: 'file-1' } }, 1_500],
    ['a file of 120 KB', { type: 'file', file: { file_data: 'A'.repeat(160_000) } }, 3 * 1_500],
    ['an unknown block', { type: 'other', dialect: 'chat', value: { type: 'hologram' } }, 0],
  ])('counts %s by a rule of thumb', async (_, block, tokens) => {
    const { usage } = await estimate(saying(block))
    expect(usage.input).toMatchObject({ text: FRAME + tokens, audio: 0 })
  })

  test('counts a file of 30 MB by a rule of thumb', async () => {
    const file = { file_data: 'A'.repeat(40_000_000) }
    const { usage } = await estimate(saying({ type: 'file', file }))
    expect(usage.input).toMatchObject({ text: FRAME + 100 * 1_500, audio: 0 })
  })

  test.each<[name: string, url: string, tokens: number]>([
    ['a video by URL', 'https://example.com/a.mp4', 3_000],
    ['a video of 6 MB', 'A'.repeat(8_000_000), 6_000],
  ])('counts %s by its seconds', async (_, url, tokens) => {
    const { usage } = await estimate(saying({ type: 'video', url }))
    expect(usage.input).toMatchObject({ text: FRAME, video: tokens })
  })

  test.each([
    ['wav', 32],
    ['mp3', 96],
  ])('counts 48 KB of %s by its seconds', async (format, tokens) => {
    const { usage } = await estimate(saying({ type: 'audio', data: 'A'.repeat(64_000), format }))
    expect(usage.input).toMatchObject({ text: FRAME, audio: tokens })
  })
})
