/** Pictures: the request to draw some, and the answer. */

import type { CallBase } from './call.ts'
import type { CommonPart, StartPart } from './part.ts'

declare module './work.ts' {
  interface Work {
    image: { call: ImageCall; part: ImagePart }
  }
}

/** A request to draw pictures, after the references if there are any. */
export interface ImageCall extends CallBase {
  kind: 'image'
  prompt: string
  /** Pictures by URL: to change, or to draw alike. */
  references: string[]
  /** Where the first of them is to be changed: where this picture is transparent. Absent for all. */
  mask?: string
  /** Whether the client has asked to change pictures: it names the events of a stream. */
  isEdit?: boolean
  params: ImageParams
  /** Parameters that mean something to one provider only, by its slug. */
  options: Record<string, Record<string, unknown>>
}

/** The parameters of wire reference E.1, under their wire names. */
export interface ImageParams {
  /** The number of pictures; absent for one. */
  n?: number
  /** Exact pixels. They agree with `resolution` and `aspect_ratio`, if the call names those too. */
  size?: PixelSize
  resolution?: Resolution
  aspect_ratio?: string
  background?: 'auto' | 'transparent' | 'opaque'
  quality?: string
  output_format?: 'png' | 'jpeg' | 'webp' | 'svg'
  /** From 0 to 100. */
  output_compression?: number
  seed?: number
  /** How many previews of a picture are streamed, at most. */
  partial_images?: number
  /** OpenAI's own. */
  moderation?: 'auto' | 'low'
  input_fidelity?: 'high' | 'low'
  style?: 'vivid' | 'natural'
}

/** The width and height of a picture. */
export interface PixelSize {
  width: number
  height: number
}

/** The tiers of size, from the smallest, with the side of a square of each. */
export const RESOLUTIONS = { '512': 512, '1K': 1024, '2K': 2048, '4K': 4096 } as const

export type Resolution = keyof typeof RESOLUTIONS

/** The ratios of width to height that calls may name (wire reference E.1). */
export const ASPECT_RATIOS = [
  ...['1:1', '1:2', '1:4', '1:8', '2:1', '2:3', '3:2', '3:4', '4:1', '4:3', '4:5', '5:4', '8:1'],
  ...['9:16', '16:9', '9:19.5', '19.5:9', '9:20', '20:9', '9:21', '21:9', '2.35:1', '5:2'],
] as const

/**
 * A piece of an answer. A protocol gives a picture as base64, or by the URL at which the provider
 * keeps it. Before it is part of the answer it is checked: then it has data, a type and, if they
 * are known, its pixels. A preview is an earlier state of a picture that is still being drawn.
 */
export type ImagePart =
  | StartPart
  | ({ type: 'picture' } & Picture)
  | { type: 'preview'; index: number; data: string }
  | CommonPart

/** One picture. */
export interface Picture {
  /** In base64; empty as long as only the URL is known. */
  data: string
  url?: string
  media_type?: string
  pixels?: PixelSize
  /** Which request brought it, where several were sent. */
  share?: number
}

/** The most pictures of one call (wire reference E.1). */
export const MOST_PICTURES = 10

/** Returns how many pictures a call asks for. */
export const countPictures = ({ params }: Pick<ImageCall, 'params'>): number => params.n ?? 1

/** Returns the width of a ratio such as `16:9`, as a multiple of its height. */
export function readRatio(ratio: string): number {
  const [width = 1, height = 1] = ratio.split(':').map(Number)
  return width / height
}

/** Returns the tier of size that is nearest to this many pixels. */
export const findResolution = (pixels: PixelSize): Resolution =>
  pickNearestTier(pixels, Object.keys(RESOLUTIONS) as Resolution[]) ?? '1K'

/** Returns the tier among these that is nearest to this many pixels; undefined without any. */
export function pickNearestTier(
  { width, height }: PixelSize,
  tiers: readonly Resolution[],
): Resolution | undefined {
  const side = Math.sqrt(width * height)
  return pickNearest(tiers, tier => Math.abs(Math.log(side / RESOLUTIONS[tier])))
}

/** Reads pixels such as `1024x1024`. */
export function readSize(text: string): PixelSize {
  const [width = 1, height = 1] = text.split('x').map(Number)
  return { width, height }
}

/** Returns the size among these that is nearest: in its ratio first, and then in its pixels. */
export function pickNearestSize(wanted: PixelSize, sizes: readonly PixelSize[]): PixelSize {
  const ratio = ({ width, height }: PixelSize) => Math.log(width / height)
  const area = ({ width, height }: PixelSize) => Math.log(width * height)
  const distance = (size: PixelSize) =>
    RATIO_FIRST * Math.abs(ratio(size) - ratio(wanted)) + Math.abs(area(size) - area(wanted))
  return pickNearest(sizes, distance) ?? wanted
}

const RATIO_FIRST = 1_000

/** Returns a size of this ratio whose longer side is no longer than this. */
export function shrinkToSide({ width, height }: PixelSize, side: number): PixelSize {
  const scale = Math.min(1, side / Math.max(width, height))
  const shrink = (length: number) => Math.max(1, Math.round(length * scale))
  return { width: shrink(width), height: shrink(height) }
}

/** Returns the item with the least distance, the first of several; undefined without any. */
export const pickNearest = <Item>(
  items: readonly Item[],
  distance: (item: Item) => number,
): Item | undefined =>
  items.reduce<Item | undefined>(
    (best, item) => (best === undefined || distance(item) < distance(best) ? item : best),
    undefined,
  )

/** Returns the ratio among these that is nearest to this one. */
export function pickNearestRatio(wanted: number, ratios: readonly string[]): string {
  const distance = (ratio: string) => Math.abs(Math.log(wanted / readRatio(ratio)))
  return ratios.reduce((best, ratio) => (distance(ratio) < distance(best) ? ratio : best))
}
