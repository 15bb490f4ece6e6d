import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { ImageCall, ImageParams, PixelSize } from '../../../../src/language/image.ts'
import {
  fitImage,
  listIgnoredImage,
} from '../../../../src/translation/protocols/images/capabilities.ts'
import { geminiImages } from '../../../../src/translation/protocols/images/gemini.ts'
import { openaiImages } from '../../../../src/translation/protocols/images/openai.ts'
import { buildEndpoint, buildImageCall } from '../../../support/call.ts'

/* https://platform.openai.com/docs/guides/image-generation: what the models of OpenAI draw. */

const at = (upstreamModel: string) =>
  buildEndpoint({ upstreamModel, protocol: 'openai-chat', output_modalities: ['image'] })
const ask = (model: string, params: ImageParams, more: Partial<ImageCall> = {}) => {
  const call = buildImageCall({ params, ...more })
  const endpoint = at(model)
  const fitted = { ...call, params: fitImage(call, endpoint) }
  return {
    sent: openaiImages.buildRequest(fitted, endpoint).body,
    ignored: listIgnoredImage(call, endpoint),
  }
}
const readSize = (size: unknown): PixelSize => {
  const [width = 0, height = 0] = String(size).split('x').map(Number)
  return { width, height }
}

describe('gpt-image-2', () => {
  test.each<[ImageParams, string | undefined, string[]]>([
    [{}, undefined, []],
    [{ aspect_ratio: '1:1' }, '1024x1024', []],
    [{ aspect_ratio: '16:9' }, '1360x768', []],
    [{ resolution: '2K' }, '2048x2048', []],
    [{ resolution: '4K', aspect_ratio: '16:9' }, '3840x2160', []],
    [{ size: { width: 1536, height: 864 } }, '1536x864', []],
    [{ size: { width: 1920, height: 1080 } }, '1936x1088', ['size']],
    [{ aspect_ratio: '8:1' }, '1616x640', ['aspect_ratio']],
  ])('is asked for %j as %s', (params, size, ignored) => {
    const asked = ask('gpt-image-2', params)
    expect([asked.sent.size, asked.ignored]).toEqual([size, ignored])
  })

  test('is never asked for pixels that it refuses', () => {
    const sides = fc.integer({ min: 1, max: 16_384 })
    const property = fc.property(sides, sides, (width, height) => {
      const size = readSize(ask('gpt-image-2', { size: { width, height } }).sent.size)
      const [short, long] = [Math.min(size.width, size.height), Math.max(size.width, size.height)]
      expect([size.width % 16, size.height % 16, long <= 3840, long <= 3 * short]).toEqual([
        ...[0, 0],
        ...[true, true],
      ])
      expect(short * long).toBeWithin(655_360, 8_294_401)
    })
    fc.assert(property, { numRuns: 200 })
  })
})

describe('how closely a picture is kept to', () => {
  const references = ['data:image/png;base64,AAAA']
  test.each<[string, string[], string[]]>([
    ['gpt-image-1', references, []],
    ['gpt-image-1.5', references, []],
    ['gpt-image-1', [], ['input_fidelity']],
    ['gpt-image-1-mini', references, ['input_fidelity']],
    ['gpt-image-2', references, ['input_fidelity']],
  ])('%s with %j', (model, given, ignored) => {
    const asked = ask(model, { input_fidelity: 'high' }, { references: given })
    expect(asked.ignored).toEqual(ignored)
    expect('input_fidelity' in asked.sent && asked.sent.input_fidelity !== undefined).toBe(
      ignored.length === 0,
    )
  })
})

describe('Imagen', () => {
  const draw = (upstreamModel: string, params: ImageParams) => {
    const endpoint = buildEndpoint({ upstreamModel, protocol: 'gemini' })
    const call = buildImageCall({ params })
    const fitted = { ...call, params: fitImage(call, endpoint) }
    return {
      sent: geminiImages.buildRequest(fitted, endpoint).body.parameters,
      ignored: listIgnoredImage(call, endpoint),
    }
  }

  test.each<[string, object, string[]]>([
    ['imagen-4.0-generate-001', { sampleImageSize: '2K' }, []],
    ['imagen-4.0-fast-generate-001', {}, ['resolution']],
    ['imagen-3.0-generate-002', {}, ['resolution']],
  ])('%s gets the tier that it draws', (model, more, ignored) => {
    expect(draw(model, { resolution: '2K' })).toEqual({
      sent: { includeRaiReason: true, sampleCount: 1, ...more },
      ignored,
    })
  })
})
