module kimi

go 1.19
