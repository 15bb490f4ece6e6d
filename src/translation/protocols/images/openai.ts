import {
  isObject,
  type Json,
  omitUndefined,
  parseCount,
  parseObject,
  readObject,
  readObjects,
  readString,
} from '../../../base/json.ts'
import {
  countPictures,
  type ImageCall,
  type ImagePart,
  type PixelSize,
} from '../../../language/image.ts'
import { createTextUsage, type Usage } from '../../../language/usage.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { unreadableAnswer } from '../failure.ts'
import {
  imageDefaults,
  pickPixels,
  pickRatio,
  readOptions,
  readPicture,
  toImageParts,
} from '../images.ts'
import { readFailure, readStreamFailure } from '../openai-chat/failure.ts'
import { applyParameterQuirks, buildPath } from '../openai-chat/request.ts'
import { openaiChat } from '../openai-chat.ts'
import type { Frame, Protocol, Reader, UpstreamRequest } from '../protocol.ts'
import { refuseImpossibleCounts, UnreadableEvents } from '../reader.ts'
import { IMAGE_EXTRAS } from './capabilities.data.ts'
import {
  drawsByChat,
  drawsPreviews,
  getImageCapabilities,
  isGptImage,
  pickBounded,
  pickCompression,
  pickFormat,
  takesExtra,
} from './capabilities.ts'
import { drawByChat } from './chat.ts'
import { fireworksImages } from './fireworks.ts'
import { findRefusal, readAnswerFailure } from './refusal.ts'

/**
 * OpenAI's pictures and those of compatible servers: `POST {base_url}/images/generations`, and
 * `/images/edits` with references (https://platform.openai.com/docs/api-reference/images).
 */
const drawn: Protocol<'image'> = {
  ...imageDefaults,
  buildRequest,
  parseAnswer,
  createReader: () => new ImageEventReader(),
  readFailure,
}

const byChat = drawByChat(openaiChat)

/**
 * Servers of OpenAI's family: models that talk too draw in a conversation, others by themselves,
 * and those of Fireworks in a form of their own.
 */
export const openaiImages: Protocol<'image'> = {
  ...drawn,
  buildRequest: (call, endpoint) => pickForm(endpoint).buildRequest(call, endpoint),
  parseAnswer: (body, call, endpoint) => pickForm(endpoint).parseAnswer(body, call, endpoint),
  readPending: (body, endpoint, asked) =>
    pickForm(endpoint).readPending?.(body, endpoint, asked) ?? null,
}

function pickForm(endpoint: Endpoint): Protocol<'image'> {
  if (drawsByChat(endpoint)) return byChat
  return endpoint.provider.quirks.images === 'fireworks' ? fireworksImages : drawn
}

/** The sandbox, which draws by itself. */
export const sandboxImages: Protocol<'image'> = drawn

/**
 * Builds the request. The parameters for this provider alone come first, so that none of them can
 * replace a known one.
 */
function buildRequest(call: ImageCall, endpoint: Endpoint): UpstreamRequest {
  const { quirks } = endpoint.provider
  const style = pickStyle(endpoint)
  const known = omitUndefined({
    model: endpoint.upstreamModel,
    prompt: call.prompt,
    n: countPictures(call),
    user: call.user ?? undefined,
    ...renderExtras(call, endpoint),
    ...STYLES[style](call, endpoint),
  })
  const body = applyParameterQuirks({ ...readOptions(call, endpoint), ...known }, quirks)
  if (style === 'openrouter')
    return { path: '/images', body: { ...body, ...renderReferences(call.references) } }
  if (call.references.length === 0) return { path: buildPath(endpoint, GENERATIONS), body }
  return addReferences(call, endpoint, body, style)
}

const renderExtras = (call: ImageCall, endpoint: Endpoint): Json =>
  Object.fromEntries(
    IMAGE_EXTRAS.flatMap(name =>
      takesExtra(name, call, endpoint) ? [[name, call.params[name]]] : [],
    ),
  )

const renderReferences = (references: string[]): Json =>
  references.length === 0
    ? {}
    : { input_references: references.map(url => ({ type: 'image_url', image_url: { url } })) }

const GENERATIONS = '/images/generations'
const EDITS = '/images/edits'

function addReferences(
  { references, mask }: ImageCall,
  endpoint: Endpoint,
  body: Json,
  style: Style,
): UpstreamRequest {
  const [first] = references
  if (endpoint.protocol === 'sandbox')
    return { path: GENERATIONS, body: { ...body, images: references.length } }
  if (style === 'together')
    return { path: buildPath(endpoint, GENERATIONS), body: { ...body, image_url: first } }
  const path = buildPath(endpoint, EDITS)
  if (style === 'xai') return { path, body: { ...body, image: { type: 'image_url', url: first } } }
  return {
    path,
    body: { ...body, 'image[]': references, ...(mask === undefined ? {} : { mask: [mask] }) },
    files: ['image[]', 'mask'],
  }
}

type Style = 'openai' | Exclude<ImageQuirk, 'fireworks'>
type ImageQuirk = Endpoint['provider']['quirks']['images']

// Servers of their own form have it for every model.
function pickStyle(endpoint: Endpoint): Style {
  const { images } = endpoint.provider.quirks
  if (images === 'fireworks') return 'compatible'
  return images === 'compatible' && isGptImage(endpoint) ? 'openai' : images
}

/** How the servers differ in their parameters. */
const STYLES: Record<Style, (call: ImageCall, endpoint: Endpoint) => Json> = {
  openai: (call, endpoint) => ({
    ...renderLooks(call, endpoint),
    size: pickGptSize(call, endpoint),
    // With previews, it draws one picture.
    ...(drawsPreviews(call, endpoint)
      ? { stream: true, partial_images: call.params.partial_images ?? PREVIEWS }
      : {}),
  }),
  compatible: (call, endpoint) => ({
    ...renderLooks(call, endpoint),
    size: renderSize(pickPixels(call)),
    seed: call.params.seed,
    response_format: 'b64_json',
  }),
  xai: (call, endpoint) => ({
    aspect_ratio: pickRatio(call, endpoint),
    resolution: call.params.resolution?.toLowerCase(),
    response_format: 'b64_json',
  }),
  openrouter: (call, endpoint) => ({
    ...renderLooks(call, endpoint),
    size: renderSize(call.params.size),
    resolution: call.params.resolution,
    aspect_ratio: call.params.aspect_ratio,
    seed: call.params.seed,
  }),
  recraft: (call, endpoint) => ({
    size: renderSize(call.params.size) ?? pickRatio(call, endpoint),
    response_format: 'b64_json',
  }),
  together: (call, endpoint) => ({
    ...pickPixels(call),
    output_format: pickFormat(call, endpoint),
    seed: call.params.seed,
    response_format: 'base64',
  }),
}

/** How many previews are streamed where a call does not say. Each costs about a hundred tokens. */
const PREVIEWS = 2

const pickGptSize = (call: ImageCall, endpoint: Endpoint): string | undefined =>
  getImageCapabilities(endpoint).bounds
    ? renderSize(pickBounded(pickPixels(call), endpoint))
    : (renderSize(call.params.size) ?? GPT_SIZES[pickRatio(call, endpoint) ?? ''])

const GPT_SIZES: Record<string, string> = {
  '1:1': '1024x1024',
  '3:2': '1536x1024',
  '2:3': '1024x1536',
}

function renderLooks(call: ImageCall, endpoint: Endpoint): Json {
  const { quality, background } = call.params
  return {
    quality,
    background,
    output_format: pickFormat(call, endpoint),
    output_compression: pickCompression(call, endpoint),
  }
}

const renderSize = (size: PixelSize | undefined): string | undefined =>
  size && `${size.width}x${size.height}`

function parseAnswer(body: unknown, call: ImageCall): ImagePart[] {
  if (!isObject(body)) throw unreadableAnswer()
  if (body.error) throw readAnswerFailure(body.error, readStreamFailure)
  const pictures = readObjects(body.data).flatMap(({ b64_json, url }) => readPicture(b64_json, url))
  const [usage, upstream_id] = [readUsage(body.usage), readString(body.id)]
  return toImageParts(call, body, { pictures, usage, upstream_id })
}

/** Reads OpenAI's usage of pictures: tokens in and out, with those of pictures among them. */
const readUsage = refuseImpossibleCounts((usage: Json): Usage | undefined => {
  const input = parseCount(usage.input_tokens ?? usage.prompt_tokens)
  const output = parseCount(usage.output_tokens ?? usage.completion_tokens)
  if (input === undefined || output === undefined) return undefined
  const details = readObject(usage, 'output_tokens_details')
  const text = Math.min(parseCount(details.text_tokens) ?? 0, output)
  const given = readObject(usage, 'input_tokens_details')
  const image = Math.min(parseCount(given.image_tokens) ?? 0, input)
  const counted = createTextUsage(input - image, text)
  return {
    ...counted,
    input: { ...counted.input, ...(image > 0 ? { image } : {}) },
    output: { ...counted.output, image: output - text },
  }
})

/** Reads the events of a stream: previews, then the picture with its usage. */
class ImageEventReader implements Reader<ImagePart> {
  complete = false
  readonly #unreadable = new UnreadableEvents()

  read({ data, json, event: name }: Frame): ImagePart[] {
    if (this.complete) return []
    if (data.trim() === '[DONE]') throw unreadableAnswer()
    const event = json === undefined ? parseObject(data) : json
    return event ? this.#readEvent(event, name) : this.#unreadable.skip()
  }

  #readEvent(event: Json, name: string | null): ImagePart[] {
    const type = readString(event.type) ?? name ?? ''
    if (type === 'error' || isObject(event.error))
      throw readAnswerFailure(event.error ?? event, readStreamFailure)
    if (/^image_(generation|edit)\.partial_image$/.test(type)) return readPreview(event)
    return /^image_(generation|edit)\.completed$/.test(type) ? this.#readCompleted(event) : []
  }

  #readCompleted(event: Json): ImagePart[] {
    const [picture] = readPicture(event.b64_json, undefined)
    if (!picture) throw findRefusal(event) ?? unreadableAnswer()
    this.complete = true
    const usage = readUsage(event.usage)
    return [{ type: 'picture', ...picture }, ...(usage ? [{ type: 'usage' as const, usage }] : [])]
  }
}

function readPreview({ b64_json, partial_image_index }: Json): ImagePart[] {
  const data = readString(b64_json)
  return data ? [{ type: 'preview', index: parseCount(partial_image_index) ?? 0, data }] : []
}
