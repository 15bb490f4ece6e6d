const EXPLANATION =
  /^(.*?)(?:(?<=\)|\/credits)\.)? For this call (?:at least )?(\$[\d.]+) would be set aside, and (\$[\d.]+) is left: .* would fit\. Nothing was spent\.$/

/** Returns which limit refused a call, without what the call may cost and what is left. */
export const readRefusedLimit = (message: string): string =>
  EXPLANATION.exec(message)?.[1] ?? message
