import { invalid } from '../../errors.ts'
import type { Actor } from '../../identity/actor.ts'
import { readImageParams } from '../../inference/kinds/image/params.ts'
import { detectImageType, isDataUrl } from '../../kernel/data-url.ts'
import { omitUndefined } from '../../kernel/json.ts'
import type { ImageCall } from '../../language/image.ts'
import type { CallContext, FormFile } from '../dialect.ts'
import { toPictureUrl } from '../form-picture.ts'
import { readProviderOptions } from '../provider-options.ts'
import { buildCallBase } from '../routing.ts'
import type { DialectWorld } from '../world.ts'
import type { ImagesForm, ImagesRequest } from './schema.ts'

/**
 * Translates a checked body into a call. Throws 400 for sizes that contradict each other, for a
 * transparent background in a format that has none, for a reference that is no URL, and for an
 * empty list of allowed providers.
 */
export function toImageCall(
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
