const EXPLANATION =
  /^(.*?)(?:(?<=\)|\/credits)\.)? The call may cost (\$[\d.]+), and (\$[\d.]+) is left: .* would fit\.$/

/** Returns which limit refused a call, without what the call may cost and what is left. */
export const readRefusedLimit = (message: string): string =>
  EXPLANATION.exec(message)?.[1] ?? message
