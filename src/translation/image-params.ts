import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../base/errors.ts'
import { oneOf, optional } from '../base/schema-builders.ts'
import {
  ASPECT_RATIOS,
  findResolution,
  type ImageParams,
  type PixelSize,
  pickNearestRatio,
  RESOLUTIONS,
  type Resolution,
  readRatio,
} from '../language/image.ts'

/** The fields that say how pictures are drawn (wire reference E.1). */
export const IMAGE_FIELDS = {
  aspect_ratio: optional(oneOf(...ASPECT_RATIOS, 'auto')),
  background: optional(oneOf('auto', 'transparent', 'opaque')),
  n: optional(Type.Integer({ minimum: 1, maximum: 10 })),
  output_compression: optional(Type.Integer({ minimum: 0, maximum: 100 })),
  output_format: optional(oneOf('png', 'jpeg', 'webp', 'svg')),
  quality: optional(oneOf('auto', 'low', 'medium', 'high', 'xhigh', 'max')),
  resolution: optional(oneOf('512', '1K', '2K', '4K')),
  seed: optional(
    Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
  ),
  size: optional(
    Type.String({ pattern: '^(512|1K|2K|4K|auto|[1-9]\\d{0,4}x[1-9]\\d{0,4})$', maxLength: 11 }),
  ),
}

const Fields = Type.Object(IMAGE_FIELDS)
type ImageFields = Static<typeof Fields>

/**
 * Reads the parameters of pictures. Throws 400 for sizes that contradict each other, and for a
 * transparent background in a format that has none. `path` stands before the names of fields.
 */
export function readImageParams(body: ImageFields, path = ''): ImageParams {
  const { n, quality, output_compression, seed } = body
  const given = { n, quality, output_compression, seed }
  return {
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value != null)),
    ...toSizes(body, path),
    ...toFormat(body, path),
  }
}

/** A transparent background needs a format that has one. PNG is what providers draw anyway. */
function toFormat({ background, output_format }: ImageFields, path: string): ImageParams {
  const format = output_format ?? (background === 'transparent' ? 'png' : undefined)
  if (background === 'transparent' && format !== 'png' && format !== 'webp')
    throw invalid(
      `${path}background: transparent needs output_format png or webp, found ${format}`,
      `${path}background`,
    )
  return {
    ...(background ? { background } : {}),
    ...(format === undefined ? {} : { output_format: format }),
  }
}

/** A tier as the size is the same as the resolution; `auto` is what the provider likes. */
function toSizes({ size, resolution, aspect_ratio }: ImageFields, path: string): ImageParams {
  const ratio = aspect_ratio === 'auto' ? undefined : (aspect_ratio ?? undefined)
  const tier = size != null && size in RESOLUTIONS ? (size as Resolution) : undefined
  if (tier && resolution && tier !== resolution)
    throw contradiction(path, size, `resolution ${resolution}`)
  const pixels = size?.includes('x') ? readPixels(size, path) : undefined
  if (pixels) checkPixels(pixels, { size, resolution, ratio, path })
  const named = tier ?? resolution ?? undefined
  return {
    ...(pixels ? { size: pixels } : named ? { resolution: named } : {}),
    ...(ratio !== undefined && !pixels ? { aspect_ratio: ratio } : {}),
  }
}

function readPixels(size: string, path: string): PixelSize {
  const [width = 0, height = 0] = size.split('x').map(Number)
  if (Math.max(width, height) <= MAX_SIDE) return { width, height }
  throw invalid(
    `${path}size: expected at most ${MAX_SIDE} pixels a side, found ${size}`,
    `${path}size`,
  )
}

const MAX_SIDE = 16_384

/** Sides are multiples of 8 or 64 at most providers, so that no ratio is exact. */
const TOLERANCE = 0.05

/** What a call says of its size, and where. */
interface SizeWishes {
  size: string | null | undefined
  resolution: Resolution | null | undefined
  ratio: string | undefined
  path: string
}

function checkPixels(pixels: PixelSize, { size, resolution, ratio, path }: SizeWishes): void {
  if (resolution && findResolution(pixels) !== resolution)
    throw contradiction(path, size, `resolution ${resolution}`)
  if (ratio !== undefined && !hasRatio(pixels, ratio))
    throw contradiction(path, size, `aspect_ratio ${ratio}`)
}

/** Tells whether pixels are of this ratio: as nearly as sides can be, and not exactly of another. */
function hasRatio({ width, height }: PixelSize, ratio: string): boolean {
  const actual = width / height
  if (pickNearestRatio(actual, ASPECT_RATIOS) === ratio) return true
  const isAnother = ASPECT_RATIOS.some(other => readRatio(other) === actual)
  return !isAnother && Math.abs(Math.log(actual / readRatio(ratio))) <= TOLERANCE
}

const contradiction = (path: string, size: unknown, other: string) =>
  invalid(`${path}size: ${size} contradicts ${other}`, `${path}size`)
