import { expect, test } from 'bun:test'
import { answerPictures } from '../../../src/network/sandbox/other-kinds.ts'

const draw = async (body: Record<string, unknown>) =>
  (await answerPictures(body)).data.map(({ b64_json }) => b64_json)

test('draws PNGs of the size that is asked for', async () => {
  for (const size of ['1x1', '7x3', '256x128', '2048x1']) {
    const [picture = ''] = await draw({ prompt: 'A cat', size })
    const [width, height] = size.split('x').map(Number)
    const image = new Bun.Image(Buffer.from(picture, 'base64'))
    expect(await image.metadata()).toMatchObject({ width, height, format: 'png' })
    // Decoding checks the sums and the length of the pixels.
    expect((await image.png().bytes()).length).toBeGreaterThan(0)
  }
})

test('draws the same for the same request, and another for another', async () => {
  const [first] = await draw({ prompt: 'A cat' })
  expect(await draw({ prompt: 'A cat' })).toEqual([first ?? ''])
  expect(await draw({ prompt: 'A dog' })).not.toEqual([first ?? ''])
  expect(await draw({ prompt: 'A cat', seed: 1 })).not.toEqual([first ?? ''])
  expect(new Set(await draw({ prompt: 'A cat', n: 3 })).size).toBe(3)
})

test('draws the largest of the ratio where more is asked for', async () => {
  for (const [size, width, height] of [
    ['2048x2048', 2_048, 2_048],
    ['2896x362', 2_048, 256],
    ['1x16384', 1, 2_048],
  ] as const) {
    const [picture = ''] = await draw({ prompt: 'A cat', size })
    const image = new Bun.Image(Buffer.from(picture, 'base64'))
    expect(await image.metadata()).toMatchObject({ width, height })
  }
})
