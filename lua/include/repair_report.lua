-- The findings of a repair.

-- Adds a finding, with 1 if it is repaired, else 0. Returns `is_repaired`.
local function note_finding(findings, kind, what, is_repaired)
  findings[#findings + 1] = kind
  findings[#findings + 1] = what
  findings[#findings + 1] = is_repaired and 1 or 0
  return is_repaired
end
