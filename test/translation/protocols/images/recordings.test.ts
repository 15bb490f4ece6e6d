import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkPictures } from '../../../../src/engine/kinds/image.ts'
import type { UpstreamWorld } from '../../../../src/network/world.ts'
import { openaiImages } from '../../../../src/translation/protocols/images/openai.ts'
import { buildEndpoint, buildImageCall } from '../../../support/call.ts'
import { hasRecordings } from '../../../support/recordings.ts'
import { SHARED } from '../../../support/shared.ts'

const readRecording = () =>
  JSON.parse(
    readFileSync(join(SHARED, 'recordings/images', 'openai__openai-image.json'), 'utf8'),
  ) as { data: { b64_json: string }[] }

describe.skipIf(!hasRecordings)('recorded pictures (recordings from GATEWAY_SHARED)', () => {
  test('of OpenAI have their bytes, their type and their pixels', async () => {
    const recorded = readRecording()
    const endpoint = buildEndpoint({ output_modalities: ['image'] })
    const call = buildImageCall({ params: { n: 2 } })
    const parts = openaiImages.parseAnswer(recorded, call, endpoint)
    // Nothing is fetched: the world is not looked at.
    const checked = await checkPictures({} as UpstreamWorld, parts, {
      call,
      endpoint,
      cancellation: null,
      enterRoom: async () => undefined,
    })
    expect(checked.filter(({ type }) => type === 'picture')).toEqual(
      recorded.data.map(({ b64_json }) => ({
        type: 'picture',
        data: b64_json,
        media_type: 'image/png',
        pixels: { width: 1024, height: 1024 },
      })),
    )
  })
})
