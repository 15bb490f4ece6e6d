/** What a use of the tool of `serve.ts` costs, in nano-dollars. */
export const PRICE = 7_000n
