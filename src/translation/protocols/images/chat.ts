import { omitUndefined } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { ImageCall, ImagePart } from '../../../language/image.ts'
import type { TextPart } from '../../../language/part.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { imageDefaults, pickRatio, readOptions, readPicture, toImageParts } from '../images.ts'
import type { Protocol } from '../protocol.ts'
import { findRefusal, refusedPicture } from './refusal.ts'

/**
 * Returns the protocol with which models draw in the course of a conversation: the prompt and the
 * references are its only message, and the pictures of the answer are the result.
 */
export const drawByChat = (text: Protocol<'text'>): Protocol<'image'> => ({
  ...imageDefaults,
  framing: text.framing,
  urlMedia: text.urlMedia,
  buildRequest(call, endpoint) {
    readOptions(call, endpoint)
    return text.buildRequest(toTextCall(call, endpoint), endpoint)
  },
  parseAnswer: (body, call, endpoint) =>
    toPictures(call, body, text.parseAnswer(body, toTextCall(call, endpoint), endpoint)),
  readFailure: text.readFailure,
})

function toTextCall(call: ImageCall, endpoint: Endpoint): TextCall {
  const { prompt, references, params, options: _, ...base } = call
  const image_config = omitUndefined({
    aspect_ratio: pickRatio(call, endpoint),
    image_size: isOlderGemini(endpoint) ? undefined : params.resolution,
  })
  return {
    ...base,
    kind: 'text',
    dialect: 'chat',
    stream: false,
    messages: [
      {
        role: 'user',
        blocks: [
          { type: 'text', text: prompt },
          ...references.map(url => ({ type: 'image' as const, url })),
        ],
      },
    ],
    tools: [],
    params: {
      modalities: ['image', 'text'],
      ...(Object.keys(image_config).length > 0 ? { image_config } : {}),
      ...(params.seed === undefined ? {} : { seed: params.seed }),
    },
    extra: {},
    betas: [],
  }
}

// It draws one size, and refuses a field for it.
const isOlderGemini = ({ upstreamModel }: Endpoint): boolean => /gemini-2/.test(upstreamModel)

function toPictures(call: ImageCall, body: unknown, parts: TextPart[]): ImagePart[] {
  const pictures = parts.flatMap(part => (part.type === 'image' ? readPicture('', part.url) : []))
  const usage = parts.flatMap(part => (part.type === 'usage' ? [part.usage] : [])).at(-1)
  const start = parts.find(part => part.type === 'start')
  // A model that answers with words alone says why it does not draw.
  const words = parts.map(readWords).join('')
  if (pictures.length === 0 && words === '' && parts.some(isFiltered))
    throw findRefusal(body) ?? refusedPicture()
  return toImageParts(call, body, {
    pictures,
    usage,
    upstream_id: start?.upstream_id ?? null,
    words,
  })
}

const readWords = (part: TextPart): string =>
  part.type === 'text-delta' || part.type === 'refusal-delta' ? part.text : ''

const isFiltered = (part: TextPart): boolean =>
  part.type === 'refusal-delta' || (part.type === 'finish' && part.reason === 'content_filter')
