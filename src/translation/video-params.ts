import { invalid } from '../base/errors.ts'
import type { PixelSize } from '../language/image.ts'
import {
  VIDEO_RATIOS,
  VIDEO_RESOLUTIONS,
  type VideoParams,
  type VideoRatio,
  type VideoResolution,
} from '../language/video.ts'

/** What a body says of the size of a video. */
interface SizeFields {
  size?: string | null
  resolution?: VideoResolution | null
  aspect_ratio?: VideoRatio | null
}

/**
 * Reads the size of a video: pixels, or a resolution and a ratio. Throws 400 for pixels that
 * contradict the others, and for more than any provider makes.
 */
export function readVideoSize({ size, resolution, aspect_ratio }: SizeFields): VideoParams {
  if (size == null)
    return { ...(resolution ? { resolution } : {}), ...(aspect_ratio ? { aspect_ratio } : {}) }
  const pixels = readPixels(size)
  const lines = Math.min(pixels.width, pixels.height)
  if (resolution && findResolution(lines) !== VIDEO_RESOLUTIONS[resolution])
    throw contradiction(size, `resolution ${resolution}`)
  if (aspect_ratio && findRatio(pixels) !== aspect_ratio)
    throw contradiction(size, `aspect_ratio ${aspect_ratio}`)
  return { size: pixels }
}

const MAX_SIDE = 8_192

function readPixels(size: string): PixelSize {
  const [width = 0, height = 0] = size.split('x').map(Number)
  if (Math.max(width, height) <= MAX_SIDE) return { width, height }
  throw invalid(`size: expected at most ${MAX_SIDE} pixels a side, found ${size}`, 'size')
}

/** Finds the lines of the resolution that is nearest to so many. */
function findResolution(lines: number): number {
  const distance = (one: number) => Math.abs(Math.log(lines / one))
  return Object.values(VIDEO_RESOLUTIONS).reduce((best, one) =>
    distance(one) < distance(best) ? one : best,
  )
}

function findRatio({ width, height }: PixelSize): VideoRatio {
  const distance = (ratio: VideoRatio) => {
    const [w = 1, h = 1] = ratio.split(':').map(Number)
    return Math.abs(Math.log(width / height / (w / h)))
  }
  return VIDEO_RATIOS.reduce((best, ratio) => (distance(ratio) < distance(best) ? ratio : best))
}

const contradiction = (size: string, other: string) =>
  invalid(`size: ${size} contradicts ${other}`, 'size')
