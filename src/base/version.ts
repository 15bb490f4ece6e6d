import manifest from '../../package.json' with { type: 'json' }

// The build puts texts here; the source has none.
declare const BUILD_COMMIT: string | undefined
declare const BUILD_DATE: string | undefined

/** The version of this program. */
export const VERSION: string = manifest.version

/** What this program is: `gateway version --json`. Run from source, it knows no commit. */
export const describeProgram = () => ({
  version: VERSION,
  /** As git names it, with `-dirty` where files had been changed. */
  commit: typeof BUILD_COMMIT === 'string' ? BUILD_COMMIT : 'unknown',
  /** When the commit was made, in UTC, or the time in SOURCE_DATE_EPOCH. */
  date: typeof BUILD_DATE === 'string' ? BUILD_DATE : 'unknown',
  bun: Bun.version,
  platform: process.platform,
  arch: process.arch,
})
