import { expect, test } from 'bun:test'
import { NO_QUIRKS } from '../../../src/config/quirks.ts'
import type { TextCall } from '../../../src/language/call.ts'
import { ASPECT_RATIOS, type ImageCall, RESOLUTIONS } from '../../../src/language/image.ts'
import { PROTOCOL_WORDS } from '../../../src/limits/filters/protocol-words.data.ts'
import type { Endpoint } from '../../../src/resources/models/catalog.ts'
import { protocols } from '../../../src/translation/protocols/registry.ts'
import { buildEndpoint, buildImageCall, buildProvider, buildTextCall } from '../../support/call.ts'

/** Calls whose own words are all marked, so that the others are a protocol's. */
const CALLS: TextCall[] = [
  buildTextCall({
    messages: [
      {
        role: 'system',
        blocks: [{ type: 'text', text: 'zzq', cache_control: { type: 'ephemeral' } }],
      },
      { role: 'user', blocks: [{ type: 'text', text: 'zzq' }] },
      {
        role: 'assistant',
        blocks: [
          { type: 'text', text: 'zzq' },
          { type: 'tool-call', id: 'zzq', name: 'zzq', input: '{"zzq":"zzq"}' },
        ],
      },
      {
        role: 'tool',
        tool_call_id: 'zzq',
        is_error: true,
        blocks: [{ type: 'text', text: '{"zzq":1}' }],
      },
      {
        role: 'user',
        blocks: [
          { type: 'text', text: 'zzq' },
          { type: 'image', url: 'data:image/png;base64,iVBORw0KGgo=' },
        ],
      },
    ],
    tools: [{ type: 'function', name: 'zzq', description: 'zzq', parameters: { type: 'object' } }],
    params: {
      max_tokens: 9_000,
      temperature: 1,
      top_p: 1,
      stop: ['zzq'],
      seed: 1,
      tool_choice: { type: 'function', function: { name: 'zzq' } },
      parallel_tool_calls: false,
      reasoning: { effort: 'high' },
    },
    stream: true,
  }),
  buildTextCall({
    params: {
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'zzq', schema: { type: 'object' } },
      },
      tool_choice: 'required',
    },
    tools: [{ type: 'function', name: 'zzq' }],
  }),
]

function listStrings(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) => [
    ...(Array.isArray(value) ? [] : [name]),
    ...listStrings(member),
  ])
}

// An instruction that a protocol adds in a sentence is read like any text.
const isOurs = (text: string) =>
  text.length > 1 &&
  !text.includes('zzq') &&
  !text.includes(' ') &&
  !/^(?:data:|iVBOR|m$|Hi$)/.test(text)

test.each(Object.keys(protocols.text))('the list has every word that %s writes', name => {
  const protocol = protocols.text[name as keyof typeof protocols.text]
  const endpoint: Endpoint = buildEndpoint({ protocol: name as never, upstreamModel: 'm' })
  const unknown = CALLS.flatMap(call => listStrings(protocol?.buildRequest(call, endpoint).body))
    .filter(isOurs)
    .filter(text => !PROTOCOL_WORDS.has(text))
  expect([...new Set(unknown)]).toEqual([])
})

const PNG = 'data:image/png;base64,iVBORw0KGgo='
const FULL: ImageCall['params'] = {
  n: 1,
  quality: 'high',
  background: 'transparent',
  output_format: 'jpeg',
  output_compression: 50,
  seed: 1,
}

/** Calls for pictures in every size, with and without references. */
const IMAGE_CALLS = ASPECT_RATIOS.flatMap(aspect_ratio =>
  (Object.keys(RESOLUTIONS) as (keyof typeof RESOLUTIONS)[]).map(resolution =>
    buildImageCall({
      prompt: 'zzq',
      params: { ...FULL, aspect_ratio, resolution },
      references: resolution === '1K' ? [PNG] : [],
      stream: true,
    }),
  ),
)

/** Values that are sizes in pixels: a pattern for people’s texts may not fit them. */
const isSize = (text: string) => /^\d+x\d+$/.test(text)

const STYLES = ['compatible', 'openrouter', 'xai', 'together'] as const

test.each(
  Object.entries(protocols.image).flatMap(([name, protocol]) =>
    STYLES.map(images => [name, images, protocol] as const),
  ),
)('the list has every word that %s writes for pictures, as %s', (name, images, protocol) => {
  const provider = buildProvider({ quirks: { ...NO_QUIRKS, images } })
  const models = ['m', 'gpt-image-1', 'imagen-4'].flatMap(upstreamModel =>
    [['image'], ['image', 'text']].map(output_modalities =>
      buildEndpoint({ protocol: name, upstreamModel, output_modalities, provider }),
    ),
  )
  const texts = models.flatMap(endpoint =>
    IMAGE_CALLS.flatMap(call => listStrings(protocol.buildRequest(call, endpoint).body)),
  )
  const unknown = texts
    .filter(isOurs)
    .filter(text => !PROTOCOL_WORDS.has(text) && !isSize(text) && !/^(gpt|imagen)-/.test(text))
  expect([...new Set(unknown)]).toEqual([])
})
