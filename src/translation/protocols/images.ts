import { detectImageType, isDataUrl } from '../../base/data-url.ts'
import type { Json } from '../../base/json.ts'
import {
  countPictures,
  type ImageCall,
  type ImagePart,
  type Picture,
  type PixelSize,
  pickNearestRatio,
  RESOLUTIONS,
  readRatio,
} from '../../language/image.ts'
import type { Usage } from '../../language/usage.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { unreadableAnswer } from './failure.ts'
import { getImageCapabilities } from './images/capabilities.ts'
import { findRefusal } from './images/refusal.ts'
import { readPassthrough } from './passthrough.ts'
import type { Protocol } from './protocol.ts'

/** What protocols share whose pictures come whole: a streamed answer is an error. */
export const imageDefaults = {
  framing: 'sse',
  acceptsNames: true,
  urlMedia: [],
  createReader: () => {
    throw unreadableAnswer()
  },
} satisfies Partial<Protocol<'image'>>

/** Returns the ratio to ask the endpoint for: the nearest that it draws. Undefined for any. */
export function pickRatio({ params }: ImageCall, endpoint: Endpoint): string | undefined {
  const { aspect_ratio } = params
  const { aspect_ratios } = getImageCapabilities(endpoint)
  if (aspect_ratio === undefined || aspect_ratios.length === 0) return undefined
  return pickNearestRatio(readRatio(aspect_ratio), aspect_ratios)
}

/** Sides that most models draw are multiples of this. */
const GRID = 16

/**
 * Returns the pixels of a tier and a ratio, on a grid; undefined if the call names neither. Pixels
 * that it names itself are returned as they are.
 */
export function pickPixels(
  { params }: Pick<ImageCall, 'params'>,
  grid = GRID,
): PixelSize | undefined {
  const { size, resolution, aspect_ratio } = params
  if (size || (resolution === undefined && aspect_ratio === undefined)) return size
  const side = RESOLUTIONS[resolution ?? '1K']
  const stretch = Math.sqrt(readRatio(aspect_ratio ?? '1:1'))
  const toGrid = (length: number) => Math.max(Math.round(length / grid), 1) * grid
  return { width: toGrid(side * stretch), height: toGrid(side / stretch) }
}

/**
 * Returns the parameters that the call names for this provider alone. Throws 400 for one that the
 * endpoint is not known to take.
 */
export const readOptions = ({ options }: ImageCall, endpoint: Endpoint): Json =>
  readPassthrough(options, endpoint, getImageCapabilities(endpoint).passthrough)

/** Returns a picture from what a provider sent: base64, a data URL or another URL. */
export function readPicture(base64: unknown, url: unknown): Picture[] {
  if (typeof base64 === 'string' && base64 !== '') return [toPicture(base64)]
  if (typeof url !== 'string' || url === '') return []
  if (!isDataUrl(url)) return [{ data: '', url }]
  const comma = url.indexOf(',')
  return comma === -1 ? [] : [toPicture(url.slice(comma + 1))]
}

function toPicture(data: string): Picture {
  const media_type = detectImageType(data)
  return { data, ...(media_type === undefined ? {} : { media_type }) }
}

/** The pictures of an answer, and what was found beside them. */
interface Drawn {
  pictures: Picture[]
  usage?: Usage | undefined
  upstream_id?: string | null
  /** What was said in the place of a picture. */
  words?: string
}

/**
 * Returns the parts of an answer with this body: no more pictures than the call asks for, and what
 * there is where some were refused. Throws what the provider says where all were, 400, and
 * `provider_unavailable` where there is nothing at all.
 */
export function toImageParts(
  call: ImageCall,
  body: unknown,
  { pictures, usage, upstream_id = null, words }: Drawn,
): ImagePart[] {
  if (pictures.length === 0) throw findRefusal(body, words) ?? unreadableAnswer()
  return [
    { type: 'start', upstream_id, system_fingerprint: null, service_tier: null },
    ...pictures
      .slice(0, countPictures(call))
      .map(picture => ({ type: 'picture' as const, ...picture })),
    ...(usage ? [{ type: 'usage' as const, usage }] : []),
  ]
}
