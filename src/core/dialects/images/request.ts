import { invalid } from '../../errors.ts'
import type { Actor } from '../../identity/actor.ts'
import { isDataUrl } from '../../kernel/data-url.ts'
import { omitUndefined } from '../../kernel/json.ts'
import {
  ASPECT_RATIOS,
  findResolution,
  type ImageCall,
  type ImageParams,
  type PixelSize,
  pickNearestRatio,
  RESOLUTIONS,
  type Resolution,
  readRatio,
} from '../../language/image.ts'
import type { CallContext } from '../dialect.ts'
import { readProviderOptions } from '../provider-options.ts'
import { buildCallBase } from '../routing.ts'
import type { DialectWorld } from '../world.ts'
import type { ImagesRequest } from './schema.ts'

/**
 * Translates a checked body into a call. Throws 400 for sizes that contradict each other, for a
 * transparent background in a format that has none, for a reference that is no URL, and for an
 * empty list of allowed providers.
 */
export function toImageCall(
  world: DialectWorld,
  actor: Actor,
  body: ImagesRequest,
  context: CallContext,
): ImageCall {
  const { model, provider, user, session_id, trace, stream } = body
  return {
    ...buildCallBase(
      world,
      actor,
      { model, ...omitUndefined({ provider, user, session_id, trace, stream }) },
      context,
    ),
    kind: 'image',
    prompt: body.prompt,
    references: (body.input_references ?? []).map(readReference),
    params: toParams(body),
    options: readProviderOptions(provider),
  }
}

function readReference({ image_url: { url } }: Reference, index: number): string {
  if (isDataUrl(url) || /^https?:\/\//i.test(url)) return url
  const field = `input_references.${index}.image_url.url`
  throw invalid(`${field}: expected a data URL or an http(s) URL`, field)
}

type Reference = NonNullable<ImagesRequest['input_references']>[number]

function toParams(body: ImagesRequest): ImageParams {
  const { n, quality, output_compression, seed } = body
  const given = { n, quality, output_compression, seed }
  return {
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value != null)),
    ...toSizes(body),
    ...toFormat(body),
  }
}

/** A transparent background needs a format that has one. PNG is what providers draw anyway. */
function toFormat({ background, output_format }: ImagesRequest): ImageParams {
  const format = output_format ?? (background === 'transparent' ? 'png' : undefined)
  if (background === 'transparent' && format !== 'png' && format !== 'webp')
    throw invalid(
      `background: transparent needs output_format png or webp, found ${format}`,
      'background',
    )
  return {
    ...(background ? { background } : {}),
    ...(format === undefined ? {} : { output_format: format }),
  }
}

/** A tier as the size is the same as the resolution; `auto` is what the provider likes. */
function toSizes({ size, resolution, aspect_ratio }: ImagesRequest): ImageParams {
  const ratio = aspect_ratio === 'auto' ? undefined : (aspect_ratio ?? undefined)
  const tier = size != null && size in RESOLUTIONS ? (size as Resolution) : undefined
  if (tier && resolution && tier !== resolution) throw contradiction('resolution', size, resolution)
  const pixels = size?.includes('x') ? readPixels(size) : undefined
  if (pixels) checkPixels(pixels, size ?? '', resolution, ratio)
  const named = tier ?? resolution ?? undefined
  return {
    ...(pixels ? { size: pixels } : named ? { resolution: named } : {}),
    ...(ratio !== undefined && !pixels ? { aspect_ratio: ratio } : {}),
  }
}

function readPixels(size: string): PixelSize {
  const [width = 0, height = 0] = size.split('x').map(Number)
  if (Math.max(width, height) <= MAX_SIDE) return { width, height }
  throw invalid(`size: expected at most ${MAX_SIDE} pixels a side, found ${size}`, 'size')
}

const MAX_SIDE = 16_384

/** Sides are multiples of 8 or 64 at most providers, so that no ratio is exact. */
const TOLERANCE = 0.05

function checkPixels(
  pixels: PixelSize,
  size: string,
  resolution: Resolution | null | undefined,
  ratio: string | undefined,
): void {
  if (resolution && findResolution(pixels) !== resolution)
    throw contradiction('resolution', size, resolution)
  const actual = pixels.width / pixels.height
  if (
    ratio !== undefined &&
    pickNearestRatio(actual, ASPECT_RATIOS) !== ratio &&
    Math.abs(Math.log(actual / readRatio(ratio))) > TOLERANCE
  )
    throw contradiction('aspect_ratio', size, ratio)
}

const contradiction = (field: string, size: unknown, value: string) =>
  invalid(`size: ${size} contradicts ${field} ${value}`, 'size')
