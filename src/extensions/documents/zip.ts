import { unzipSync } from 'fflate'

const MEBIBYTE = 1024 * 1024

/** What one file of an archive, and all that are read of it, may come to once inflated. */
const LARGEST_ENTRY = 32 * MEBIBYTE
const LARGEST_SUM = 96 * MEBIBYTE
/** How many files an archive may list. */
const MOST_ENTRIES = 20_000

/** The archive lists too much, inflates to too much, or states a wrong size. */
class ZipError extends Error {}

/**
 * Reads the files of a zip archive whose names `isWanted`. Never takes more memory than the bounds:
 * what an archive says of a size is the room that the file gets, and no more is inflated. Throws
 * for an archive that is damaged, or larger than the bounds.
 */
export function readZip(
  bytes: Uint8Array,
  isWanted: (name: string) => boolean,
): Map<string, Uint8Array> {
  const sizes = new Map<string, number>()
  let count = 0
  let sum = 0
  const files = unzipSync(bytes, {
    filter({ name, originalSize }) {
      count += 1
      if (count > MOST_ENTRIES) throw new ZipError('too many files')
      if (!isWanted(name)) return false
      sum += originalSize
      if (originalSize > LARGEST_ENTRY || sum > LARGEST_SUM) throw new ZipError('too large')
      sizes.set(name, originalSize)
      return true
    },
  })
  for (const [name, size] of sizes)
    if (files[name]?.length !== size) throw new ZipError('a size that is not true')
  return new Map(Object.entries(files))
}
