import { type Static, Type } from '@sinclair/typebox'
import { detectImageType, isDataUrl } from '../../base/data-url.ts'
import { invalid } from '../../base/errors.ts'
import { omitUndefined } from '../../base/json.ts'
import { toUsd } from '../../base/money.ts'
import {
  closed,
  list,
  oneOf,
  open,
  optional,
  SomeContent,
  SomeName,
} from '../../base/schema-builders.ts'
import type { Answer } from '../../language/answer.ts'
import type { ImageCall, ImagePart, Picture } from '../../language/image.ts'
import { countInputTokens, countOutputTokens, type Receipt } from '../../language/usage.ts'
import type { Actor } from '../../resources/actor.ts'
import { IMAGE_FIELDS, readImageParams } from '../image-params.ts'
import type { CallContext, Dialect, FormFile, Streaming } from './dialect.ts'
import { renderErrorEvent, renderEvent, writeEvents } from './events.ts'
import { toPictureUrl } from './form-picture.ts'
import { readProviderOptions } from './provider-options.ts'
import { buildCallBase, providerWithOptions, routingFields } from './routing.ts'
import { dryRunFields } from './schema.ts'
import type { DialectWorld } from './world.ts'

/**
 * The images request (specification E8, wire reference E.1). Fields that are not named here are
 * refused: one that a provider reads may ask for more pictures than were paid for.
 */

/** The most pictures to change or to draw alike. */
const MAX_REFERENCES = 16

const Reference = Type.Object(
  {
    type: Type.Literal('image_url'),
    image_url: Type.Object({ url: SomeContent }, open),
  },
  open,
)

const { user, session_id, trace, stream } = routingFields

/** OpenAI's clients may say how they want the pictures: there is one way. */
const ResponseFormat = optional(oneOf('b64_json'))

/** OpenAI's own fields: endpoints that do not have them do without. */
const OPENAI_FIELDS = {
  partial_images: optional(Type.Integer({ minimum: 0, maximum: 3 })),
  moderation: optional(oneOf('auto', 'low')),
  input_fidelity: optional(oneOf('high', 'low')),
  style: optional(oneOf('vivid', 'natural')),
  // The last two are of OpenAI's older models.
  quality: optional(oneOf('auto', 'low', 'medium', 'high', 'xhigh', 'max', 'standard', 'hd')),
}

/** The body of `POST /images`. */
const ImagesRequest = Type.Object(
  {
    model: SomeName,
    prompt: SomeContent,
    ...IMAGE_FIELDS,
    ...OPENAI_FIELDS,
    response_format: ResponseFormat,
    input_references: optional(list(Reference, { maxItems: MAX_REFERENCES })),
    provider: providerWithOptions,
    stream,
    user,
    session_id,
    trace,
    debug: optional(Type.Object(dryRunFields, closed)),
  },
  closed,
)
type ImagesRequest = Static<typeof ImagesRequest>

/** The fields of the same as a form, as OpenAI's clients send it, beside its pictures. */
const ImagesForm = Type.Object(
  {
    model: SomeName,
    prompt: SomeContent,
    ...IMAGE_FIELDS,
    ...OPENAI_FIELDS,
    response_format: ResponseFormat,
    stream,
    user,
  },
  closed,
)
type ImagesForm = Static<typeof ImagesForm> & { debug?: null }

/**
 * Translates a checked body into a call. Throws 400 for sizes that contradict each other, for a
 * transparent background in a format that has none, for a reference that is no URL, and for an
 * empty list of allowed providers.
 */
function toImageCall(
  world: DialectWorld,
  actor: Actor,
  fields: ImagesRequest | ImagesForm,
  context: CallContext,
): ImageCall {
  // A form has fewer fields.
  const body: ImagesRequest = fields
  const { model, provider, user, session_id, trace, stream } = body
  const mask = context.files?.find(({ name }) => name === 'mask')
  const pictures = (context.files ?? []).filter(file => file !== mask)
  if (mask && pictures.length === 0) throw invalid('mask: expected an image beside it', 'mask')
  return {
    ...buildCallBase(
      world,
      actor,
      { model, ...omitUndefined({ provider, user, session_id, trace, stream }) },
      context,
    ),
    kind: 'image',
    prompt: body.prompt,
    references: [...pictures.map(readFile), ...(body.input_references ?? []).map(readReference)],
    ...(mask ? { mask: readFile(mask) } : {}),
    ...(context.files ? { isEdit: true } : {}),
    params: { ...readImageParams({ ...body, ...readQuality(body) }), ...readOwnFields(body) },
    options: readProviderOptions(provider),
  }
}

function readFile(file: FormFile): string {
  const url = toPictureUrl(file)
  if (url) return url
  throw invalid(`${file.name}: expected pictures in PNG, JPEG, WebP or GIF`, file.name)
}

/** OpenAI's older models have other words. */
function readQuality({ quality }: ImagesRequest) {
  if (quality === 'hd') return { quality: 'high' as const }
  return { quality: quality === 'standard' ? ('medium' as const) : (quality ?? null) }
}

function readOwnFields({ partial_images, moderation, input_fidelity, style }: ImagesRequest) {
  const given = { partial_images, moderation, input_fidelity, style }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value != null))
}

function readReference({ image_url: { url } }: Reference, index: number): string {
  const field = `input_references.${index}.image_url.url`
  if (isDataUrl(url)) return checkPicture(url, field)
  if (/^https?:\/\//i.test(url)) return url
  throw invalid(`${field}: expected a data URL or an http(s) URL`, field)
}

/** The longest beginning of a data URL: its type, and the bytes by which a picture is known. */
const HEAD = 256

/**
 * Returns the data URL. Throws 400 unless it says that it is a picture of pixels and its first
 * bytes are none of another kind: no provider draws after lines, which may have scripts.
 */
function checkPicture(url: string, field: string): string {
  const head = /^data:image\/([\w.+-]+)((?:;[^,;]*)*),(.*)$/is.exec(url.slice(0, HEAD))
  const [, type = 'svg', parameters = '', data = ''] = head ?? []
  const bytes = data.replaceAll('-', '+').replaceAll('_', '/')
  const isOther =
    /;\s*base64$/i.test(parameters) &&
    KNOWN_HEADS.has(type.toLowerCase()) &&
    !detectImageType(bytes)
  if (!/svg/i.test(type) && !isOther) return url
  throw invalid(`${field}: expected a picture in PNG, JPEG, WebP or GIF`, field)
}

/** Types whose first bytes are known. */
const KNOWN_HEADS = new Set(['png', 'jpeg', 'jpg', 'gif', 'webp'])

type Reference = NonNullable<ImagesRequest['input_references']>[number]

/** Collects the pictures of an answer. Throws the error of a failed answer. */
async function collectImageResponse(answer: Answer<'image'>, call: ImageCall) {
  const pictures: Picture[] = []
  let receipt: Receipt | null = null
  for (const batch of await answer.parts.collect()) {
    for (const part of batch) {
      if (part.type === 'error') throw part.error
      if (part.type === 'receipt') receipt = part.receipt
      if (part.type === 'picture') pictures.push(part)
    }
  }
  return {
    created: answer.created,
    data: pictures.map(renderPicture),
    ...renderSize(call, pictures[0]),
    ...(receipt ? { usage: renderImageUsage(receipt) } : {}),
  }
}

/** Renders a picture: its bytes in base64, and their type as it was found in them. */
const renderPicture = ({ data, media_type }: Picture) => ({
  b64_json: data,
  ...(media_type === undefined ? {} : { media_type }),
})

/**
 * Renders the pixels of a picture as OpenAI does, where the call asks for some: they differ where
 * the endpoint draws none of that size.
 */
const renderSize = ({ params }: ImageCall, picture: Picture | undefined) =>
  params.size && picture?.pixels ? { size: `${picture.pixels.width}x${picture.pixels.height}` } : {}

/** Renders the usage of an answer (wire reference E.1). */
function renderImageUsage({ usage, cost, is_byok, cost_details }: Receipt) {
  const prompt_tokens = countInputTokens(usage)
  const completion_tokens = countOutputTokens(usage)
  const { input, output } = usage
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens: input.cache_read, audio_tokens: input.audio },
    completion_tokens_details: {
      image_tokens: output.image,
      reasoning_tokens: output.reasoning,
    },
    cost: cost === null ? null : toUsd(cost),
    is_byok,
    ...(cost_details
      ? {
          cost_details: {
            upstream_inference_cost: toUsd(cost_details.prompt + cost_details.completion),
            upstream_inference_prompt_cost: toUsd(cost_details.prompt),
            upstream_inference_completions_cost: toUsd(cost_details.completion),
          },
        }
      : {}),
  }
}

const DONE = 'data: [DONE]\n\n'

/**
 * How pictures stream (wire reference E.2): previews as they are drawn, then each picture, the last
 * one with the usage. Answers of providers that draw without previews are not streamed.
 */
const imageStreaming: Streaming<'image', unknown> = {
  leavesWholeAnswers: true,
  renderKeepAlive: () => ': keep-alive\n\n',
  streamEvents(answer, call) {
    const writer = new ImageStreamWriter(answer, call)
    return writeEvents(answer, { write: parts => parts.map(part => writer.write(part)).join('') })
  },
  renderFailure: ({ id }, error) => renderErrorEvent(id, error) + DONE,
}

/** Writes the parts of an answer as events. The last picture waits for the usage. */
class ImageStreamWriter {
  readonly #id: string
  readonly #created: number
  readonly #call: ImageCall
  #pending: Picture | null = null

  constructor({ id, created }: Pick<Answer<'image'>, 'id' | 'created'>, call: ImageCall) {
    this.#id = id
    this.#created = created
    this.#call = call
  }

  // OpenAI's clients know the events by what they have asked for.
  get #noun(): string {
    return this.#call.isEdit ? 'image_edit' : 'image_generation'
  }

  write(part: ImagePart): string {
    switch (part.type) {
      case 'preview':
        return renderEvent({
          type: `${this.#noun}.partial_image`,
          b64_json: part.data,
          partial_image_index: part.index,
        })
      case 'picture':
        return this.#hold(part)
      case 'error':
        return this.#renderPending(null) + renderErrorEvent(this.#id, part.error)
      case 'receipt':
        return this.#renderPending(part.receipt) + DONE
      default:
        return ''
    }
  }

  #hold(picture: Picture): string {
    const text = this.#renderPending(null)
    this.#pending = picture
    return text
  }

  #renderPending(receipt: Receipt | null): string {
    const picture = this.#pending
    if (!picture) return ''
    this.#pending = null
    return renderEvent({
      type: `${this.#noun}.completed`,
      ...renderPicture(picture),
      ...renderSize(this.#call, picture),
      created: this.#created,
      ...(receipt ? { usage: renderImageUsage(receipt) } : {}),
    })
  }
}

/** The most bytes of all pictures of a form: as many as those that are fetched may have. */
const LARGEST_PICTURES = 64 * 1024 * 1024

/** The most bytes of the fields beside them: OpenAI takes a prompt of 32,000 characters. */
const LARGEST_FIELDS = 1024 * 1024

/**
 * The images API: pictures drawn from a prompt (specification E8, reference E), also in the form in
 * which OpenAI's clients send pictures to be changed.
 */
export const images: Dialect<'image', ImagesRequest | ImagesForm> = {
  name: 'images',
  kind: 'image',
  path: '/images',
  operation: { id: 'createImages', tag: 'Images', summary: 'Draw pictures' },
  body: ImagesRequest,
  form: {
    body: ImagesForm,
    file: 'image',
    whole: LARGEST_PICTURES,
    fields: LARGEST_FIELDS,
    most: MAX_REFERENCES,
    others: ['mask'],
  },
  toCall: toImageCall,
  collectResponse: collectImageResponse,
  streaming: imageStreaming,
}
