import { describe, expect, test } from 'bun:test'
import { countInputTokens, countOutputTokens } from '../../../../src/language/usage.ts'
import { readUsage } from '../../../../src/translation/protocols/gemini/usage.ts'

const detail = (modality: string, tokenCount: number) => ({ modality, tokenCount })

describe('readUsage', () => {
  test('trap 86: adds thoughts to the candidates as output', () => {
    const usage = readUsage({
      promptTokenCount: 9,
      candidatesTokenCount: 29,
      thoughtsTokenCount: 256,
      totalTokenCount: 294,
    })
    expect(usage?.output).toEqual({ text: 29, reasoning: 256, audio: 0, image: 0 })
    expect(usage && countInputTokens(usage) + countOutputTokens(usage)).toBe(294)
  })

  test('separates cached tokens from the prompt, and adds what Google’s tools read', () => {
    const usage = readUsage({
      promptTokenCount: 100,
      cachedContentTokenCount: 60,
      toolUsePromptTokenCount: 7,
      candidatesTokenCount: 1,
    })
    expect(usage?.input).toMatchObject({ text: 47, cache_read: 60 })
    expect(usage && countInputTokens(usage)).toBe(107)
  })

  test('trap 89: counts audio, video and pictures once, and not where they were cached', () => {
    const usage = readUsage({
      promptTokenCount: 100,
      cachedContentTokenCount: 20,
      promptTokensDetails: [
        detail('TEXT', 30),
        detail('AUDIO', 40),
        detail('VIDEO', 20),
        detail('IMAGE', 10),
      ],
      cacheTokensDetails: [detail('AUDIO', 20)],
      candidatesTokenCount: 50,
      candidatesTokensDetails: [detail('IMAGE', 30), detail('AUDIO', 5)],
    })
    expect(usage?.input).toEqual({
      image: 10,
      text: 30,
      cache_read: 20,
      cache_write: 0,
      cache_write_1h: 0,
      audio: 20,
      video: 20,
    })
    expect(usage?.output).toEqual({ text: 15, reasoning: 0, audio: 5, image: 30 })
  })

  test('trap 87: counts nothing without candidates', () => {
    expect(readUsage({ promptTokenCount: 4, totalTokenCount: 4 })).toMatchObject({
      input: { text: 4 },
      output: { text: 0 },
    })
  })

  test('trap 92: returns undefined if nothing was counted', () => {
    for (const given of [undefined, null, 'x', {}, { trafficType: 'ON_DEMAND' }])
      expect(readUsage(given)).toBeUndefined()
  })

  test('a negative count makes a usage impossible', () => {
    expect(readUsage({ promptTokenCount: 0, candidatesTokenCount: -3 })?.isImpossible).toBe(true)
  })

  test('never makes a class negative if details exceed their total', () => {
    const usage = readUsage({
      promptTokenCount: 5,
      cachedContentTokenCount: 50,
      promptTokensDetails: [detail('AUDIO', 1e6), 7, null],
      candidatesTokenCount: 2,
      candidatesTokensDetails: 'x',
    })
    expect(usage).toMatchObject({
      input: { text: 0, cache_read: 5, audio: 0 },
      output: { text: 2 },
    })
  })
})
