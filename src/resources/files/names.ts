import { invalid } from '../../base/errors.ts'

const LONGEST = 255

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to refuse.
const REFUSED = /[<>:"|?*\\\u0000-\u001f\u007f-\u009f\u2028\u2029]/

/**
 * Checks a file's name: 1 to 255 characters, which may contain `/` as folders do (wire reference
 * F.3). Throws 400 for a slash at an end, for an empty, `.` or `..` segment, for `< > : " | ? * \`
 * and for control characters.
 */
export function checkFilename(filename: string): string {
  if (filename === '') throw refuse('a name')
  if ([...filename].length > LONGEST) throw refuse(`a name of at most ${LONGEST} characters`)
  if (REFUSED.test(filename)) throw refuse('a name without control characters and < > : " | ? * \\')
  const isPlain = filename.split('/').every(part => part !== '' && part !== '.' && part !== '..')
  if (!isPlain) throw refuse('a name whose folders are neither empty nor . nor ..')
  return filename
}

const refuse = (expected: string) => invalid(`filename: expected ${expected}`, 'filename')
